/** What the console says in Chinese; `en` has the same members. */
import { common } from "./common";
import { now } from "./now";
import { places } from "./places";
import { plans } from "./plans";
import { shell } from "./shell";
import { task } from "./task";

export const zh = { ...shell, ...common, ...now, ...plans, ...task, ...places } as const;
