import { constants, type FileHandle, open } from 'node:fs/promises';

/** An error report of NVIDIA's driver. */
export interface Xid {
  readonly code: number;
  /** Line of the kernel log. */
  readonly line: string;
}

/**
 * Codes after which a GPU does no more useful work until it was reset or replaced. They are a double-bit error (48),
 * row remapping or page retirement (63, 64), an NVLink fault (74), a GPU off the bus (79), and memory errors (94, 95).
 * Other codes are mostly faults of a program, which its worker reports itself.
 */
const FATAL: ReadonlySet<number> = new Set([48, 63, 64, 74, 79, 94, 95]);
const XID = /NVRM: Xid \(PCI:[^)]*\): (\d+)/;
const RECORD_BYTES_MAX = 8192;
/** Records read at a time; the kernel keeps a few thousand. */
const RECORDS_MAX = 20_000;

/** Reads fatal Xids from the kernel log, each once, the ones from before the agent included. */
export class KernelLog {
  readonly #path: string;
  #file: FileHandle | undefined;
  #rest = '';

  /** @param path `/dev/kmsg`, which gives one record a read, or a file with its lines */
  constructor(path: string) {
    this.#path = path;
  }

  /** Returns the fatal Xids since the last call. @throws Error if the log cannot be read */
  async read(): Promise<readonly Xid[]> {
    this.#file ??= await open(this.#path, constants.O_RDONLY | constants.O_NONBLOCK);
    const buffer = Buffer.allocUnsafe(RECORD_BYTES_MAX);
    let text = this.#rest;
    for (let count = 0; count < RECORDS_MAX; count++) {
      const bytes = await readSome(this.#file, buffer);
      if (bytes === 0) break;
      if (bytes > 0) text += buffer.toString('utf8', 0, bytes);
    }
    const lines = text.split('\n');
    this.#rest = (lines.pop() ?? '').slice(-RECORD_BYTES_MAX);
    return lines.flatMap((line) => {
      const code = Number(XID.exec(line)?.[1]);
      return FATAL.has(code) ? [{ code, line }] : [];
    });
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }
}

/** Returns the bytes read; 0 = there is nothing now; -1 = records were overwritten before they were read. */
async function readSome(file: FileHandle, buffer: Buffer): Promise<number> {
  try {
    return (await file.read(buffer, 0, buffer.length, null)).bytesRead;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EAGAIN') return 0;
    if (code === 'EPIPE') return -1;
    throw error;
  }
}
