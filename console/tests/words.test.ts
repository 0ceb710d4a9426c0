import { expect, test } from "vitest";
import { isId, parsed, written } from "../src/shell/query";
import { count, duration, percent, perMinute, tail } from "../src/text/format";

test("a search is its words, and back", () => {
  expect(parsed('kind:video.render state:failed subject:"episode 7"')).toEqual({
    kind: "video.render",
    state: "failed",
    subject: "episode 7",
  });
  expect(parsed("7")).toEqual({ subject: "7" });
  expect(parsed("http://x")).toEqual({ subject: "http://x" });
  for (const subject of ["a b", 'say "hi"', "back\\slash", "<script>", "kind:x"]) {
    expect(parsed(written({ subject, kind: "k" }))).toEqual({ subject, kind: "k" });
  }
  expect(isId(" 019D8A4F-1c2e-7e41-9b1d-0c5f5fd2e81a ")).toBe(true);
  expect(isId("019d8a4f")).toBe(false);
});

test("figures are written as people read them", () => {
  expect([0.088, 4, 41.2, 668, 11_520, 530_000].map(duration)).toEqual([
    "88 ms",
    "4.0 s",
    "41 s",
    "11 m 08 s",
    "3 h 12 m",
    "6 d 3 h",
  ]);
  expect([0, 0.00002, 0.0005, 0.082, 1].map(percent)).toEqual(["0 %", "0 %", "0.05 %", "8.2 %", "100 %"]);
  expect([count(1_284), count(10_001, false)]).toEqual(["1,284", "≥ 10,000"]);
  expect([perMinute(42, true), perMinute(-3.14)]).toEqual(["+42/min", "−3.1/min"]);
  expect(tail("019d8a4f-1c2e-7e41-9b1d-0c5f5fc41d9e")).toBe("…c41d9e");
});
