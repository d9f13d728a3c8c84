import type { Socket } from 'node:net';
import type { SinkClient } from './frame-sink.contract.ts';

/** Reads one HTTP/1.1 response from a socket, piece by piece as it arrives. */
export class RawResponseReader implements SinkClient {
  readonly #socket: Socket;
  readonly #pieces: string[] = [];
  readonly #decoder = new TextDecoder();
  #waiting = Buffer.alloc(0);
  #head: ReturnType<SinkClient['head']>;
  #isComplete = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => this.#take(chunk));
    socket.on('error', () => undefined); // a reset is how some hosts drop a client that left
  }

  pieces(): readonly string[] {
    return this.#pieces;
  }

  head(): ReturnType<SinkClient['head']> {
    return this.#head;
  }

  isComplete(): boolean {
    return this.#isComplete;
  }

  setReading(isReading: boolean): void {
    if (isReading) this.#socket.resume();
    else this.#socket.pause();
  }

  leave(): void {
    this.#socket.destroy();
  }

  #take(chunk: Buffer): void {
    this.#waiting = Buffer.concat([this.#waiting, chunk]);
    if (this.#head === undefined && !this.#takeHead()) return;
    const piece = this.#takeChunks();
    if (piece !== '') this.#pieces.push(piece);
  }

  #takeHead(): boolean {
    const end = this.#waiting.indexOf('\r\n\r\n');
    if (end < 0) return false;
    const [statusLine = '', ...lines] = this.#waiting.subarray(0, end).toString('latin1').split('\r\n');
    const headers = Object.fromEntries(lines.map((line) => line.split(': ') as [string, string]));
    this.#head = { status: Number(statusLine.split(' ')[1]), headers };
    this.#waiting = this.#waiting.subarray(end + 4);
    return true;
  }

  /** Everything of the chunked body that has arrived whole. */
  #takeChunks(): string {
    let text = '';
    for (;;) {
      const lineEnd = this.#waiting.indexOf('\r\n');
      if (lineEnd < 0) return text;
      const size = Number.parseInt(this.#waiting.subarray(0, lineEnd).toString('latin1'), 16);
      if (this.#waiting.length < lineEnd + 2 + size + 2) return text;
      text += this.#decoder.decode(this.#waiting.subarray(lineEnd + 2, lineEnd + 2 + size), { stream: true });
      this.#waiting = this.#waiting.subarray(lineEnd + 2 + size + 2);
      if (size === 0) this.#isComplete = true;
    }
  }
}
