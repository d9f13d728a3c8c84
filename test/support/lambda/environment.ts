import { type ChildProcess, spawn } from 'node:child_process';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cpuMsOf } from '../process-table.ts';
import { nodeIn } from '../tools/nodes.ts';
import type { Invocation } from './invocation.ts';
import type { OtherUser } from './other-user.ts';
import type { LambdaStats } from './stats.ts';

export const NATIVE_CLIENT = fileURLToPath(new URL('native-client.mjs', import.meta.url));
const ARN = 'arn:aws:lambda:us-east-1:000000000000:function:local';
const OUTPUT_CHARS_MAX = 1_000_000;
/** Node 22, as deployed, if the set-up has fetched it. */
export const NODE = process.env.STATOR_TEST_NODES ? nodeIn(process.env.STATOR_TEST_NODES, 22) : process.execPath;

export interface EnvironmentOptions {
  readonly directory: string;
  readonly runtimeClient: string;
  readonly handler: string;
  readonly timeoutMs: number;
  readonly freeze: boolean;
  readonly env: Readonly<Record<string, string>>;
  readonly as: OtherUser | undefined;
}

/**
 * One execution environment: a process with the real runtime client, and the Runtime API that the client calls. It
 * serves one invocation at a time. With `freeze`, it is stopped (SIGSTOP) between invocations, as the service does.
 */
export class Environment {
  readonly #options: EnvironmentOptions;
  readonly #stats: LambdaStats;
  readonly #onGone: () => void;
  readonly #api: Server;
  #child: ChildProcess | undefined;
  #current: Invocation | undefined;
  #isHandedOver = false;
  #timeout: NodeJS.Timeout | undefined;
  /** Open call of the runtime client for work. */
  #waiting: ServerResponse | undefined;
  #startedMs = 0;
  #isFrozen = false;
  #isGone = false;
  #output = '';

  constructor(options: EnvironmentOptions, stats: LambdaStats, onGone: () => void) {
    this.#options = options;
    this.#stats = stats;
    this.#onGone = onGone;
    this.#api = createServer((request, response) => void this.#answer(request, response));
    this.#api.requestTimeout = 0;
    this.#api.keepAliveTimeout = 0;
    stats.coldStarts++;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get isIdle(): boolean {
    return this.#current === undefined && !this.#isGone;
  }

  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /** Standard output and standard error of the process so far. */
  get output(): string {
    return this.#output;
  }

  invoke(invocation: Invocation): void {
    this.#current = invocation;
    if (this.#child === undefined) this.#start();
    this.#handOver();
  }

  kill(): void {
    if (this.#child === undefined) this.#leave();
    else this.#child.kill('SIGKILL');
  }

  #start(): void {
    this.#startedMs = performance.now();
    this.#api.listen(0, '127.0.0.1', () => {
      const { port } = this.#api.address() as AddressInfo; // a listening TCP server has an AddressInfo
      const { directory, runtimeClient, handler, as } = this.#options;
      const preload = as?.nativeClient ?? NATIVE_CLIENT;
      this.#child = spawn(as?.node ?? NODE, ['--import', preload, join(runtimeClient, 'bin', 'index.mjs'), handler], {
        cwd: directory,
        stdio: ['ignore', 'pipe', 'pipe'],
        env: this.#processEnv(`127.0.0.1:${port}`),
        ...(as === undefined ? {} : { uid: as.uid, gid: as.uid }),
      });
      for (const stream of [this.#child.stdout, this.#child.stderr]) {
        stream?.setEncoding('utf8').on('data', (text: string) => {
          this.#output = (this.#output + text).slice(-OUTPUT_CHARS_MAX);
        });
      }
      this.#child.on('exit', () => this.#leave());
    });
  }

  /** Returns the variables of the process, without the test's own environment. */
  #processEnv(runtimeApi: string): NodeJS.ProcessEnv {
    return {
      PATH: process.env.PATH,
      TZ: ':UTC',
      LANG: 'en_US.UTF-8',
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'local',
      AWS_SECRET_ACCESS_KEY: 'local',
      AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs22.x',
      AWS_LAMBDA_FUNCTION_NAME: 'local',
      AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '1769',
      AWS_LAMBDA_INITIALIZATION_TYPE: 'on-demand',
      AWS_LAMBDA_NODEJS_USE_ALTERNATIVE_CLIENT_1: 'true',
      LAMBDA_TASK_ROOT: this.#options.directory,
      _HANDLER: this.#options.handler,
      ...this.#options.env,
      AWS_LAMBDA_RUNTIME_API: runtimeApi,
    };
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#serve(request, response);
    } catch {
      response.destroy(); // the process died during a call, and its exit fails the invocation
    }
  }

  /** Serves the Runtime API, version 2018-06-01. */
  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    if (path.endsWith('/invocation/next')) return this.#takeCallForWork(response);
    if (path.endsWith('/response') && this.#current !== undefined && path.includes(this.#current.id)) {
      await this.#current.stream(request);
    } else {
      for await (const chunk of request as AsyncIterable<Buffer>) this.#output += chunk.toString(); // an error report
      this.#current?.fail();
    }
    response.writeHead(202, { 'content-type': 'application/json' }).end('{"status":"OK"}');
  }

  #takeCallForWork(response: ServerResponse): void {
    if (this.#startedMs > 0) this.#noteInit();
    if (this.#isHandedOver) {
      this.#current?.fail(); // the function asks for more work without an answer to this invocation
      this.#current = undefined;
      this.#isHandedOver = false;
    }
    clearTimeout(this.#timeout);
    this.#waiting = response;
    if (this.#current !== undefined) this.#handOver();
    else if (this.#options.freeze) {
      this.#isFrozen = true;
      this.#child?.kill('SIGSTOP');
    }
  }

  #noteInit(): void {
    this.#stats.initMs.push(performance.now() - this.#startedMs);
    this.#startedMs = 0;
    const cpuMs = this.pid === undefined ? undefined : cpuMsOf(this.pid);
    if (cpuMs !== undefined) this.#stats.initCpuMs.push(cpuMs);
  }

  #handOver(): void {
    const invocation = this.#current;
    const response = this.#waiting;
    if (invocation === undefined || response === undefined) return;
    this.#waiting = undefined;
    this.#isHandedOver = true;
    if (this.#isFrozen) this.#child?.kill('SIGCONT');
    this.#isFrozen = false;
    this.#timeout = setTimeout(() => this.#runOutOfTime(invocation), this.#options.timeoutMs);
    response.writeHead(200, {
      'content-type': 'application/json',
      'lambda-runtime-aws-request-id': invocation.id,
      'lambda-runtime-deadline-ms': String(Date.now() + this.#options.timeoutMs),
      'lambda-runtime-invoked-function-arn': ARN,
      'lambda-runtime-trace-id': `Root=1-00000000-${invocation.id.replaceAll('-', '').slice(0, 24)};Sampled=0`,
    });
    response.end(JSON.stringify(invocation.event));
  }

  #runOutOfTime(invocation: Invocation): void {
    this.#stats.timeouts++;
    invocation.fail(504);
    this.kill();
  }

  #leave(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    clearTimeout(this.#timeout);
    this.#api.close();
    this.#api.closeAllConnections();
    if (this.#current !== undefined && !this.#current.isSettled) {
      this.#stats.crashes++;
      this.#current.fail();
    }
    this.#onGone();
  }
}
