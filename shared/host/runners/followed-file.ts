import { type FileHandle, open } from 'node:fs/promises';
import type { Clock } from '../../clock/index.ts';

const PERIOD_MS = 250;
const CHUNK_BYTES = 256 * 1024;
/** Size at which a file is emptied, once everything in it has been read. */
const FILE_BYTES_MAX = 32 * 1024 * 1024;

/**
 * Follows a file to which another process appends, and empties it when it has become large. A worker writes to a file
 * and not to a pipe, because a pipe would break with the agent, and the worker with the pipe.
 */
export class FollowedFile {
  readonly #path: string;
  readonly #onText: (text: string) => void;
  readonly #stop: () => void;
  readonly #decoder = new TextDecoder();
  #at: number;
  #reading: Promise<void> | undefined;
  #isClosed = false;

  /** @param from byte at which to begin */
  constructor(path: string, clock: Clock, onText: (text: string) => void, from: number) {
    this.#path = path;
    this.#onText = onText;
    this.#at = from;
    const timer = clock.every(PERIOD_MS, () => {
      this.#reading ??= this.#read().finally(() => {
        this.#reading = undefined;
      });
    });
    this.#stop = () => timer.cancel();
  }

  /** Reads the rest, and stops. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stop();
    await this.#reading;
    await this.#read();
  }

  async #read(): Promise<void> {
    let file: FileHandle | undefined;
    try {
      file = await open(this.#path, 'r+');
      await this.#readOpen(file);
    } catch {
      // The file is away, or the disk is full: the worker matters more than its log.
    } finally {
      await file?.close();
    }
  }

  async #readOpen(file: FileHandle): Promise<void> {
    const { size } = await file.stat();
    if (size < this.#at) this.#at = 0; // a new file
    const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, Math.max(1, size - this.#at)));
    while (this.#at < size) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, this.#at);
      if (bytesRead === 0) break;
      this.#at += bytesRead;
      this.#onText(this.#decoder.decode(buffer.subarray(0, bytesRead), { stream: true }));
    }
    if (this.#at < FILE_BYTES_MAX) return;
    await file.truncate(0); // its writer appends, so it goes on at the beginning
    this.#at = 0;
  }
}

/** Last lines of an output. */
export class OutputTail {
  readonly #linesMax: number;
  #text = '';

  constructor(linesMax = 3) {
    this.#linesMax = linesMax;
  }

  push(text: string): void {
    this.#text = (this.#text + text).slice(-4096);
  }

  /** The last lines in one. */
  get lines(): string {
    const lines = this.#text.split('\n').filter((line) => line.trim() !== '');
    return lines.slice(-this.#linesMax).join(' | ');
  }
}
