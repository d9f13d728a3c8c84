/** Resource that is opened at its first use, once for all who use it. */
export class OpenOnce<T extends { close(): void | Promise<void> }> {
  readonly #open: () => Promise<T>;
  #opened: Promise<T> | undefined;

  constructor(open: () => Promise<T>) {
    this.#open = open;
  }

  /** Returns the resource. Rejects if it cannot be opened; the next call then tries again. */
  get(): Promise<T> {
    this.#opened ??= this.#open().catch((thrown: unknown) => {
      this.#opened = undefined;
      throw thrown;
    });
    return this.#opened;
  }

  /** Closes the resource if it was opened. */
  async close(): Promise<void> {
    const opened = await this.#opened?.catch(() => undefined); // it could not be opened
    await opened?.close();
  }
}
