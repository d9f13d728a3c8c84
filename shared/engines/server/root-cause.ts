/** Processes whose output is followed apart; an engine has a few for each device. */
const PROCESSES_MAX = 64;
const CAUSES_MAX = 64;
const MESSAGE_CHARS_MAX = 1000;
/** Lines after which what an engine said is no reason for its end any more. */
const LINES_KEPT = 3000;
/** Lines of the message of one exception that are read: the first is often a mere headline. */
const MESSAGE_LINES_MAX = 4;

/** What follows from an engine's start that has failed already: it says to look above. */
const CONSEQUENCE =
  /initialization failed|see (the )?(root cause|stack trace)|background process|failed to start|scheduler is dead|EngineDead|engine process (failed|died)|^(SystemExit|KeyboardInterrupt|asyncio\.|concurrent\.futures\.)|died unexpectedly/i;
/** Says that what is told next is fatal. */
const ANNOUNCED = /failed to start|hit an exception|fatal error|caught exception|^Process \S+:$/i;
const TRACEBACK = /Traceback \(most recent call last\):\s*$/;
const CHAINED = /^(During handling of the above exception|The above exception was the direct cause)/;
const EXCEPTION = /^[A-Za-z_]\w*(\.\w+)*(: |$)/;
/** An argument parser, and a C++ library that gives up. */
const REFUSAL = /^\S[^:]*: error: (.+)/;
const TERMINATED = /^\s*what\(\):\s*(.+)/;
/** `(EngineCore_DP0 pid=12)`, whose output vLLM marks so, and what its log lines begin with. */
const PROCESS = /^\(([A-Za-z][^()]* pid=\d+[^()]*)\) ?/;
const LOG_HEAD = /^(?:(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d [\d:.]+ \[[^\]]*\] ?|\[\d{4}-\d\d-\d\d [^\]]*\] ?)/;

/** One exception that an engine told of. */
interface Cause {
  message: string;
  readonly line: number;
  readonly isAnnounced: boolean;
}

/** What one process of the engine is saying. */
interface Telling {
  /** In a traceback, in the message below it, or neither. */
  state: 'between' | 'frames' | 'message';
  isAnnounced: boolean;
  /** It is told in passing: the engine goes on. */
  isHarmless: boolean;
  cause: Cause | undefined;
  messageLines: number;
}

/**
 * Finds in the output of an engine why it ended. One that fails tells it several times: its innermost process tells the
 * exception, then each process above tells that the one below has failed, down to a last line that says to look above.
 */
export class RootCause {
  readonly #tellings = new Map<string, Telling>();
  readonly #causes: Cause[] = [];
  #refusal: { readonly text: string; readonly line: number } | undefined;
  #lines = 0;

  /** Reads the next line of output. */
  read(line: string): void {
    this.#lines++;
    const { process, level, rest } = splitLine(line);
    const telling = this.#tellingOf(process);
    if (level !== undefined) telling.isHarmless = level !== 'ERROR' && level !== 'CRITICAL';
    if (TRACEBACK.test(rest)) {
      telling.isAnnounced ||= ANNOUNCED.test(rest);
      telling.state = 'frames';
      return;
    }
    if (telling.state === 'frames') {
      this.#readFrame(telling, rest);
      return;
    }
    if (telling.state === 'message') this.#readMessage(telling, level, rest);
    if (ANNOUNCED.test(rest)) Object.assign(telling, { isAnnounced: true, isHarmless: false });
    const refusal = REFUSAL.exec(rest)?.[1] ?? TERMINATED.exec(rest)?.[1];
    if (refusal !== undefined) this.#refusal = { text: refusal, line: this.#lines };
  }

  /** In one line; undefined when nothing was told. */
  find(): string | undefined {
    const recent = this.#causes.filter(({ line, message }) => this.#isRecent(line) && !CONSEQUENCE.test(message));
    // What is announced as fatal came first where it began; without that the last one ended the engine.
    const cause = recent.find(({ isAnnounced }) => isAnnounced) ?? recent.at(-1);
    if (cause !== undefined) return cause.message;
    return this.#refusal !== undefined && this.#isRecent(this.#refusal.line) ? this.#refusal.text : undefined;
  }

  #isRecent(line: number): boolean {
    return this.#lines - line < LINES_KEPT;
  }

  #readFrame(telling: Telling, rest: string): void {
    if (rest.trim() === '' || /^\s/.test(rest) || !EXCEPTION.test(rest)) return; // the code, or another process in between
    telling.state = 'message';
    telling.messageLines = 1;
    telling.cause = undefined;
    if (telling.isHarmless) return;
    const { isAnnounced } = telling;
    telling.cause = { message: cut(rest), line: this.#lines, isAnnounced };
    this.#causes.push(telling.cause);
    if (this.#causes.length > CAUSES_MAX) this.#causes.splice(CAUSES_MAX / 2, 1); // the first and the last say it
  }

  /** The message of an exception may go on, and another exception may follow from it: then the last one says it best. */
  #readMessage(telling: Telling, level: string | undefined, rest: string): void {
    if (CHAINED.test(rest)) {
      const at = telling.cause === undefined ? -1 : this.#causes.indexOf(telling.cause);
      if (at >= 0) this.#causes.splice(at, 1);
      telling.state = 'between';
      return;
    }
    if (rest.trim() === '') return;
    const goesOn =
      /^\s/.test(rest) && telling.messageLines < MESSAGE_LINES_MAX && !rest.includes('For further information');
    if (goesOn && telling.cause !== undefined) {
      telling.messageLines++;
      telling.cause.message = cut(`${telling.cause.message} ${rest.trim()}`);
      return;
    }
    telling.state = 'between';
    telling.isAnnounced = false;
    if (level === undefined) telling.isHarmless = false;
  }

  #tellingOf(process: string): Telling {
    let telling = this.#tellings.get(process);
    if (telling === undefined) {
      if (this.#tellings.size >= PROCESSES_MAX) this.#tellings.clear();
      telling = { state: 'between', isAnnounced: false, isHarmless: false, cause: undefined, messageLines: 0 };
      this.#tellings.set(process, telling);
    }
    return telling;
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
