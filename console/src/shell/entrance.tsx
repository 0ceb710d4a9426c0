/** For whoever has not shown a token yet. */
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { carry, client, got, Problem } from "../api/client";
import { Icon } from "../parts/icon";
import { useText } from "../text";

export function Entrance() {
  const { text } = useText();
  const queries = useQueryClient();
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState("");
  async function enter(event: FormEvent) {
    event.preventDefault();
    setWrong("");
    try {
      const begun = await got(client.POST("/api/session", { body: { token: token.trim() } }));
      carry(begun.csrfToken);
      await queries.resetQueries();
    } catch (error) {
      const refused = error instanceof Problem && error.status === 401;
      setWrong(refused ? text.entrance.refused : (error as Error).message || text.errors.api);
    }
  }
  return (
    <main className="entrance" id="main">
      <form className="card" onSubmit={enter}>
        <h1 className="row">
          <Icon name="mark" />
          {text.entrance.title}
        </h1>
        <div className="field">
          <label htmlFor="token">{text.entrance.token}</label>
          <input
            id="token"
            className="input mono"
            type="password"
            autoComplete="off"
            aria-invalid={wrong !== ""}
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
          {wrong === "" ? (
            <span className="hint">{text.entrance.hint}</span>
          ) : (
            <span className="wrong" role="alert">
              {wrong}
            </span>
          )}
        </div>
        <button type="submit" className="button primary" disabled={token.trim() === ""}>
          {text.entrance.enter}
        </button>
      </form>
    </main>
  );
}
