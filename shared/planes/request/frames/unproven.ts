/** Most connections of peers that have not proved anything yet. One more closes the oldest. */
export const UNPROVEN_MAX = 1024;

/** Connections that a listener has accepted and whose peers have not proved anything yet. */
export class Unproven<Connection> {
  /** In order of arrival. */
  readonly #connections = new Set<Connection>();
  readonly #close: (connection: Connection) => void;

  /** @param close closes a connection; the peer may notice later */
  constructor(close: (connection: Connection) => void) {
    this.#close = close;
  }

  /** Adds a connection. If there are too many, closes the oldest one. */
  add(connection: Connection): void {
    this.#connections.add(connection);
    if (this.#connections.size <= UNPROVEN_MAX) return;
    const oldest = this.#connections.values().next().value as Connection; // it has more than one
    this.#connections.delete(oldest); // now: many may come before the socket of this one has closed
    this.#close(oldest);
  }

  /** Forgets a connection whose peer has proved itself, or which is over. */
  delete(connection: Connection): void {
    this.#connections.delete(connection);
  }
}
