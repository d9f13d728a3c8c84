/** A longer line is cut: progress bars and dumps are not for logs. */
const LINE_CHARS_MAX = 4096;

/** Splits the output of a process into lines. What ends in CR alone (progress bars) counts as a line too. */
export class OutputLines {
  readonly #onLine: (line: string) => void;
  #rest = '';

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  push(text: string): void {
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? '').slice(0, LINE_CHARS_MAX);
    for (const line of lines) if (line !== '') this.#onLine(line.slice(0, LINE_CHARS_MAX));
  }

  end(): void {
    if (this.#rest !== '') this.#onLine(this.#rest);
    this.#rest = '';
  }
}

/** How loud a line of an engine's output is: engines written in Python name the level near its start. */
export function levelOfLine(line: string): 'info' | 'warn' | 'error' {
  const head = line.slice(0, 120);
  if (/\b(ERROR|CRITICAL|FATAL)\b|^Traceback \(/.test(head)) return 'error';
  return /\bWARN(ING)?\b/.test(head) ? 'warn' : 'info';
}
