import type { Clock } from '../../clock/index.ts';
import { withEither } from '../../concurrency/index.ts';
import { hideSecrets } from '../../config/index.ts';
import { reasonOf, workerError } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { baseUrl } from '../http/openai-wire.ts';
import { ask, isRefused, Upstream, type UpstreamAnswer, type UpstreamMessage } from '../http/upstream.ts';
import type { EngineServer, StartingServer } from './dialect.ts';
import { EngineProcess, levelOfLine, type ProcessEnd } from './engine-process.ts';
import { HeldPorts } from './held-ports.ts';
import {
  isMissing,
  type LaunchPlan,
  type LaunchPorts,
  missingText,
  type OptionalArgument,
  takePorts,
} from './launch-plan.ts';
import { urlIn } from './passed-arguments.ts';
import { patientServer } from './patient-server.ts';
import { learnArguments } from './understood-arguments.ts';

const HEALTH_PAUSE_MS = 250;
const ASK_TIMEOUT_MS = 5000;
/** Longest time from the death of a process until its parent is notified. */
const END_SEEN_MS = 500;
/** Limit of a health check; its caller has a deadline of its own. */
const HEALTH_TIMEOUT_MS_MAX = 600_000;
/** Time that an engine gets to stop: with its streams closed it has nothing left to drain. */
const STOP_GRACE_MS = 2000;

export interface EngineHostOptions {
  /** URL of a server that already runs ... */
  readonly url?: string | undefined;
  /** ... or the plan for starting one. */
  readonly launch?: LaunchPlan | undefined;
  readonly apiKey?: string | undefined;
  readonly connectTimeoutMs: number;
  readonly startTimeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Server of an engine: either attached by its URL, or a process that this worker starts, watches and stops.
 *
 * | State | healthy | process ends | stop |
 * |---|---|---|---|
 * | learning its arguments | - | - | ends the question's process |
 * | starting | -> up | start fails, or is retried without the arguments that it refused | ends it |
 * | up | - | `onExit` | ends it |
 */
export class EngineHost implements EngineServer {
  readonly #options: EngineHostOptions;
  readonly #stopping = new AbortController();
  readonly #ports = new HeldPorts();
  #process: EngineProcess | undefined;
  #upstream: Upstream | undefined;
  #args: readonly string[] | undefined;
  #isUp = false;
  #startUntilMs = 0;
  /** Aborted when the process of a start has ended. */
  #death = new AbortController();
  #onExit: ((reason: Error) => void) | undefined;
  #exit: Error | undefined;

  constructor(options: EngineHostOptions) {
    this.#options = options;
    if (options.url !== undefined) this.#upstream = this.#connect(options.url);
  }

  /** Server for exchanges; available once `start` has resolved. */
  get upstream(): Upstream {
    if (this.#upstream === undefined) throw new Error('the engine is not started');
    return this.#upstream;
  }

  /** Arguments that the engine was started with; undefined if it is attached. */
  get args(): readonly string[] | undefined {
    return this.#args;
  }

  /**
   * Starts the server if it is the worker's own, and waits until it is healthy. Rejects with a message that says what
   * to change.
   */
  async start(signal: AbortSignal): Promise<void> {
    const { launch, clock, startTimeoutMs } = this.#options;
    const untilMs = clock.nowMs() + startTimeoutMs; // over all attempts
    this.#startUntilMs = untilMs;
    try {
      if (launch === undefined) await this.untilUp('/health', faultOfHealth, signal, untilMs);
      else await this.#learnAndLaunch(launch, untilMs, signal);
    } catch (thrown) {
      this.#ports.release();
      throw thrown;
    }
    this.#isUp = true;
    this.#reportExit();
  }

  /** Returns the server for questions about its information and abilities; these end when the process does. */
  whileStarting(signal: AbortSignal): StartingServer {
    const { clock, logger, startTimeoutMs } = this.#options;
    const both = AbortSignal.any([signal, this.#death.signal, this.#stopping.signal]);
    const limits = { clock, logger, startTimeoutMs, untilMs: this.#startUntilMs, pauseMs: HEALTH_PAUSE_MS };
    const askOnce = (message: UpstreamMessage, timeoutMs = ASK_TIMEOUT_MS) => this.askUntil(message, timeoutMs, both);
    return patientServer(askOnce, limits, both);
  }

  ask(message: UpstreamMessage, timeoutMs = ASK_TIMEOUT_MS): Promise<UpstreamAnswer> {
    const { clock } = this.#options;
    return ask(this.upstream, message, { clock, timeoutMs, signal: this.#stopping.signal });
  }

  /**
   * Requests `path` until `faultOf` finds no fault in the answer, and returns it.
   * @param faultOf returns why to retry; if it throws, the requests end
   * @param untilMs deadline by the clock, which rejects with the last fault. @default a start's time from now
   */
  async untilUp(
    path: string,
    faultOf: (answer: UpstreamAnswer) => string | undefined,
    signal: AbortSignal,
    untilMs: number = this.#options.clock.nowMs() + this.#options.startTimeoutMs,
  ): Promise<UpstreamAnswer> {
    const { clock, startTimeoutMs, url } = this.#options;
    for (;;) {
      const answer = await this.askUntil({ path }, ASK_TIMEOUT_MS, signal).catch(reasonOf);
      signal.throwIfAborted();
      const fault = typeof answer === 'string' ? answer : faultOf(answer);
      if (typeof answer !== 'string' && fault === undefined) return answer;
      if (clock.nowMs() + HEALTH_PAUSE_MS > untilMs) {
        const [where, hint] = url === undefined ? ['', ''] : [` at ${url}`, ': check the URL'];
        throw new Error(`no engine${where} within ${startTimeoutMs} ms (${fault})${hint}`);
      }
      await clock.sleep(HEALTH_PAUSE_MS, signal);
    }
  }

  /** Sends a message with a deadline and the caller's signal. */
  askUntil(message: UpstreamMessage, timeoutMs: number, signal: AbortSignal): Promise<UpstreamAnswer> {
    const { clock } = this.#options;
    return withEither([signal, this.#stopping.signal], (either) =>
      ask(this.upstream, message, { clock, timeoutMs, signal: either }),
    );
  }

  /**
   * Rejects when the engine's health check fails or is not answered in time.
   * @param deadStatus status that means permanently dead; undefined = there is none
   */
  async probe(deadStatus: number | undefined, timeoutMs: number, signal: AbortSignal): Promise<void> {
    const { status } = await this.askUntil({ path: '/health' }, timeoutMs, signal);
    const kind = status === deadStatus ? 'EngineShutdown' : 'Unavailable';
    if (status >= 300) throw workerError(kind, `the engine's health check answered ${status}`);
  }

  /** Does as `probe`, under the caller's own deadline; reports how the worker's own process has ended. */
  async health(deadStatus: number | undefined, signal: AbortSignal): Promise<void> {
    try {
      await this.probe(deadStatus, HEALTH_TIMEOUT_MS_MAX, signal);
    } catch (reason) {
      // A dying process refuses connections before it is known how it ended.
      const end = isRefused(reason) ? await this.#process?.endedWithin(END_SEEN_MS) : undefined;
      throw end === undefined ? reason : workerError('EngineShutdown', end.reason);
    }
  }

  onExit(listener: (reason: Error) => void): void {
    this.#onExit = listener;
    this.#reportExit();
  }

  /** Stops the server if it is the worker's own. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the engine is stopped'));
    await this.#process?.stop(STOP_GRACE_MS);
    this.#ports.release();
    this.#upstream?.close();
  }

  async #learnAndLaunch(launch: LaunchPlan, untilMs: number, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    const ports = await takePorts(launch, this.#ports);
    const both = AbortSignal.any([signal, this.#stopping.signal]);
    const { version, optional } = await learnArguments(launch, { clock, logger, signal: both });
    if (version !== undefined) logger.info('the engine is installed', { package: launch.packageName, version });
    await this.#launch(launch, ports, optional, untilMs, signal);
  }

  async #launch(
    launch: LaunchPlan,
    ports: LaunchPorts,
    optional: readonly OptionalArgument[],
    untilMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, logger } = this.#options;
    const planned = launch.command(ports);
    const command = { ...planned, args: [...planned.args, ...optional.flatMap(({ words }) => words)] };
    logger.info('starting the engine', { program: command.program, args: hideSecrets(command.args).join(' ') });
    const process = new EngineProcess({ command, clock, onLine: (line) => this.#line(line) });
    this.#process = process;
    this.#args = command.args;
    this.#upstream = this.#connect(urlIn(command.args));
    const death = new AbortController();
    this.#death = death;
    let end: ProcessEnd | undefined;
    void process.ended.then((how) => {
      end = how;
      death.abort(new Error(how.reason));
    });
    try {
      await this.untilUp('/health', faultOfHealth, AbortSignal.any([signal, death.signal]), untilMs);
      void process.ended.then((how) => this.#ended(how)); // only of this attempt: an earlier one's end is not a death
    } catch (thrown) {
      await process.stop(STOP_GRACE_MS);
      if (signal.aborted) throw thrown;
      const refused = end === undefined ? [] : refusedArguments(end, optional);
      if (end !== undefined && isMissing(end, launch)) throw new Error(missingText(launch));
      if (refused.length === 0) throw end === undefined ? thrown : new Error(end.reason);
      const args = refused.flatMap(({ words }) => words);
      logger.warn('the engine refused some arguments: starting it without them', { args });
      this.#upstream.close();
      const left = optional.filter((argument) => !refused.includes(argument));
      await this.#launch(launch, ports, left, untilMs, signal);
    }
  }

  #connect(url: string): Upstream {
    const { apiKey, connectTimeoutMs, clock } = this.#options;
    return new Upstream({ url: baseUrl(url), apiKey, connectTimeoutMs, clock });
  }

  #line(line: string): void {
    const { logger } = this.#options;
    const level = levelOfLine(line);
    // While it loads, users want to see its progress; later, an engine's output is for debugging.
    logger[level === 'info' && this.#isUp ? 'debug' : level](line);
  }

  #ended({ reason }: ProcessEnd): void {
    if (this.#stopping.signal.aborted) return;
    this.#exit = new Error(reason);
    this.#reportExit();
  }

  #reportExit(): void {
    if (!this.#isUp || this.#exit === undefined || this.#onExit === undefined) return;
    const listener = this.#onExit;
    this.#onExit = undefined;
    listener(this.#exit);
  }
}

function faultOfHealth({ status }: UpstreamAnswer): string | undefined {
  return status === 200 ? undefined : `its health check answers ${status}`;
}

/** Returns the arguments of `optional` that the engine's argument parser reported as unknown. */
function refusedArguments(end: ProcessEnd, optional: readonly OptionalArgument[]): readonly OptionalArgument[] {
  const words = end.tail.flatMap((line) => /unrecognized arguments: (.*)/.exec(line)?.[1]?.split(' ') ?? []);
  return optional.filter(({ words: [flag] }) => words.includes(flag));
}
