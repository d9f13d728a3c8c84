/** Number of processes whose output is followed separately; an engine has a few for each device. */
const PROCESSES_MAX = 64;
const CAUSES_MAX = 64;
const MESSAGE_CHARS_MAX = 1000;
/** Number of lines after which an exception no longer counts as the reason of the end. */
const LINES_KEPT = 3000;
/** Number of lines that are read of an exception's message: the first is often only a headline. */
const MESSAGE_LINES_MAX = 4;

/** Matches consequences of a failure that has already happened, which refer to earlier output. */
const CONSEQUENCE =
  /initialization failed|see (the )?(root cause|stack trace)|background process|failed to start|scheduler is dead|EngineDead|engine process (failed|died)|^(SystemExit|KeyboardInterrupt|asyncio\.|concurrent\.futures\.)|died unexpectedly/i;
/** Matches announcements that the next exception is fatal. */
const ANNOUNCED = /failed to start|hit an exception|fatal error|caught exception|^Process \S+:$/i;
const TRACEBACK = /Traceback \(most recent call last\):\s*$/;
const CHAINED = /^(During handling of the above exception|The above exception was the direct cause)/;
const EXCEPTION = /^[A-Za-z_]\w*(\.\w+)*(: |$)/;
/** Messages of an argument parser, and of a C++ library that aborts. */
const REFUSAL = /^\S[^:]*: error: (.+)/;
const TERMINATED = /^\s*what\(\):\s*(.+)/;
/** `(EngineCore_DP0 pid=12)`, which marks the output of vLLM's processes, and the beginnings of its log lines. */
const PROCESS = /^\(([A-Za-z][^()]* pid=\d+[^()]*)\) ?/;
const LOG_HEAD = /^(?:(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d [\d:.]+ \[[^\]]*\] ?|\[\d{4}-\d\d-\d\d [^\]]*\] ?)/;

/** Exception in the output of an engine. */
interface Cause {
  message: string;
  readonly line: number;
  readonly isAnnounced: boolean;
}

/** State of reading one process's output. */
interface ProcessOutput {
  /** Position: in a traceback, in the message below it, or neither. */
  state: 'between' | 'frames' | 'message';
  isAnnounced: boolean;
  /** Whether the exception is only logged and the engine continues. */
  isHarmless: boolean;
  cause: Cause | undefined;
  messageLines: number;
}

/**
 * Finds the reason for an engine's end in its output. A failing engine reports the failure several times: its innermost
 * process prints the exception, then each process above reports that the one below has failed, down to a last line that
 * refers to earlier output.
 */
export class RootCause {
  readonly #outputs = new Map<string, ProcessOutput>();
  readonly #causes: Cause[] = [];
  #refusal: { readonly text: string; readonly line: number } | undefined;
  #lines = 0;

  /** Reads the next line of output. */
  read(line: string): void {
    this.#lines++;
    const { process, level, rest } = splitLine(line);
    const output = this.#outputOf(process);
    if (level !== undefined) output.isHarmless = level !== 'ERROR' && level !== 'CRITICAL';
    if (TRACEBACK.test(rest)) {
      output.isAnnounced ||= ANNOUNCED.test(rest);
      output.state = 'frames';
      return;
    }
    if (output.state === 'frames') {
      this.#readFrame(output, rest);
      return;
    }
    if (output.state === 'message') this.#readMessage(output, level, rest);
    if (ANNOUNCED.test(rest)) Object.assign(output, { isAnnounced: true, isHarmless: false });
    const refusal = REFUSAL.exec(rest)?.[1] ?? TERMINATED.exec(rest)?.[1];
    if (refusal !== undefined) this.#refusal = { text: refusal, line: this.#lines };
  }

  /** Returns the reason in one line; undefined when there is none. */
  find(): string | undefined {
    const recent = this.#causes.filter(({ line, message }) => this.#isRecent(line) && !CONSEQUENCE.test(message));
    // The first exception announced as fatal is where the failure began; without such an announcement, the last one
    // ended the engine.
    const cause = recent.find(({ isAnnounced }) => isAnnounced) ?? recent.at(-1);
    if (cause !== undefined) return cause.message;
    return this.#refusal !== undefined && this.#isRecent(this.#refusal.line) ? this.#refusal.text : undefined;
  }

  #isRecent(line: number): boolean {
    return this.#lines - line < LINES_KEPT;
  }

  #readFrame(output: ProcessOutput, rest: string): void {
    // the code, or another process in between
    if (rest.trim() === '' || /^\s/.test(rest) || !EXCEPTION.test(rest)) return;
    output.state = 'message';
    output.messageLines = 1;
    output.cause = undefined;
    if (output.isHarmless) return;
    const { isAnnounced } = output;
    output.cause = { message: cut(rest), line: this.#lines, isAnnounced };
    this.#causes.push(output.cause);
    // the first and the last ones are enough
    if (this.#causes.length > CAUSES_MAX) this.#causes.splice(CAUSES_MAX / 2, 1);
  }

  /**
   * Reads on in the message of an exception. Another exception may follow from it: then the last one is the best
   * reason.
   */
  #readMessage(output: ProcessOutput, level: string | undefined, rest: string): void {
    if (CHAINED.test(rest)) {
      const at = output.cause === undefined ? -1 : this.#causes.indexOf(output.cause);
      if (at >= 0) this.#causes.splice(at, 1);
      output.state = 'between';
      return;
    }
    if (rest.trim() === '') return;
    const goesOn =
      /^\s/.test(rest) && output.messageLines < MESSAGE_LINES_MAX && !rest.includes('For further information');
    if (goesOn && output.cause !== undefined) {
      output.messageLines++;
      output.cause.message = cut(`${output.cause.message} ${rest.trim()}`);
      return;
    }
    output.state = 'between';
    output.isAnnounced = false;
    if (level === undefined) output.isHarmless = false;
  }

  #outputOf(process: string): ProcessOutput {
    let output = this.#outputs.get(process);
    if (output === undefined) {
      if (this.#outputs.size >= PROCESSES_MAX) this.#outputs.clear();
      output = { state: 'between', isAnnounced: false, isHarmless: false, cause: undefined, messageLines: 0 };
      this.#outputs.set(process, output);
    }
    return output;
  }
}

function splitLine(line: string) {
  const process = PROCESS.exec(line);
  const unmarked = line.slice(process?.[0].length ?? 0);
  const head = LOG_HEAD.exec(unmarked);
  return { process: process?.[1] ?? '', level: head?.[1], rest: unmarked.slice(head?.[0].length ?? 0) };
}

function cut(text: string): string {
  return text.length > MESSAGE_CHARS_MAX ? `${text.slice(0, MESSAGE_CHARS_MAX)}...` : text;
}
