import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Environment } from './lambda/environment.ts';
import { type EventFormat, toLambdaEvent } from './lambda/events.ts';
import { Invocation } from './lambda/invocation.ts';
import type { OtherUser } from './lambda/other-user.ts';
import { type LambdaStats, newLambdaStats } from './lambda/stats.ts';
import { waitUntil } from './wait-until.ts';

export interface LambdaRuntimeOptions {
  /** Folder of the bundle. */
  readonly directory: string;
  /** @default 'index.handler' */
  readonly handler?: string;
  /** Variables of the function. It receives no other variable of the test's environment. @default none */
  readonly env?: Readonly<Record<string, string>>;
  /** @default 'rest-api' */
  readonly eventFormat?: EventFormat;
  /** Time-out of the function. @default 900_000 */
  readonly timeoutMs?: number;
  /** Most processes at a time. Further requests get a 429. @default 4 */
  readonly environmentsMax?: number;
  /**
   * Whether a request goes to the process that has rested longest, so that each gets a share; otherwise to the oldest.
   */
  readonly spread?: boolean;
  /** Whether processes stop between invocations. @default true, as in the service */
  readonly freeze?: boolean;
  /**
   * Path of API Gateway's stage, such as `/prod`. The front removes it, and refuses other paths with 403. @default none
   */
  readonly stage?: string;
  /** Largest body. The front itself refuses larger ones. @default 6 MiB, as in the service */
  readonly bodyBytesMax?: number;
  /** Answers of the front itself, by the gateway's names for them. @default the gateway's own texts */
  readonly gatewayAnswers?: Readonly<Record<string, GatewayAnswer>>;
  /**
   * Runs the processes as another user of this machine, from copies that this user can read. @default the current user
   */
  readonly as?: OtherUser;
}

/** An answer that the gateway gives in place of the function. */
export interface GatewayAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const GATEWAY_ANSWERS = {
  MISSING_AUTHENTICATION_TOKEN: { status: 403, headers: {}, body: '{"message":"Forbidden"}' },
  REQUEST_TOO_LARGE: { status: 413, headers: {}, body: '{"message":"Request Too Long"}' },
  THROTTLED: { status: 429, headers: {}, body: '{"message":"Too Many Requests"}' },
} as const satisfies Record<string, GatewayAnswer>;

/** A function behind an HTTP front. */
export interface LambdaRuntime {
  /** URL without a slash at the end. */
  readonly url: string;
  readonly stats: Readonly<LambdaStats>;
  environments(): readonly { readonly pid: number | undefined; readonly isFrozen: boolean; readonly isIdle: boolean }[];
  /** Resolves when no environment is at work. An answer is complete a moment before its process asks for more work. */
  idle(): Promise<void>;
  /** Returns the output of all processes, including ended ones. */
  output(): string;
  /** Invokes the function with an event that is not an HTTP request. Resolves with the status for the caller. */
  invoke(event: object): Promise<number>;
  /** Invokes the function with such an event, of any size. Returns its answer, and rejects if it failed. */
  answerTo(event: object): Promise<unknown>;
  stop(): Promise<void>;
}

/** Value of the header of an event that has no room there. */
const EVENT_IN_BODY = 'body';

/** Whether the set-up found or installed the runtime client. */
export function hasLambdaRuntime(): boolean {
  return Boolean(process.env.STATOR_TEST_LAMBDA_RIC);
}

/**
 * Runs a function bundle under the real runtime client (aws-lambda-ric), and serves it over HTTP as API Gateway or a
 * function URL would. Each process serves one request at a time, and answers stream. The function does not notice
 * callers that leave.
 */
export async function startLambdaRuntime(options: LambdaRuntimeOptions): Promise<LambdaRuntime> {
  const runtimeClient = process.env.STATOR_TEST_LAMBDA_RIC;
  if (!runtimeClient) throw new Error('STATOR_TEST_LAMBDA_RIC is not set: run through vitest, whose set-up fetches it');
  const service = new LambdaService(options, runtimeClient);
  const front = createServer((request, response) => void service.serve(request, response));
  front.requestTimeout = 0;
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  const { port } = front.address() as AddressInfo; // a listening TCP server has an AddressInfo
  const url = `http://127.0.0.1:${port}`;
  return {
    url: `${url}${options.stage ?? ''}`,
    stats: service.stats,
    environments: () => service.environments(),
    async idle() {
      await waitUntil(() => service.environments().every((environment) => environment.isIdle), {
        what: 'idle environments',
      });
    },
    output: () => service.output(),
    invoke: async (event) => {
      const response = await fetch(`${url}${options.stage ?? ''}/`, {
        method: 'POST',
        headers: { 'x-raw-event': JSON.stringify(event) },
      });
      await response.arrayBuffer();
      return response.status;
    },
    answerTo: async (event) => {
      const headers = { 'x-raw-event': EVENT_IN_BODY };
      const response = await fetch(`${url}/`, { method: 'POST', headers, body: JSON.stringify(event) });
      const text = await response.text();
      if (!response.ok) throw new Error(`${text} ${service.output().slice(-2000)}`);
      return JSON.parse(text) as unknown;
    },
    async stop() {
      service.stop();
      front.closeAllConnections();
      front.close();
      await once(front, 'close');
    },
  };
}

/** Passes requests on to environments. */
class LambdaService {
  readonly stats = newLambdaStats();
  readonly #options: LambdaRuntimeOptions;
  readonly #runtimeClient: string;
  readonly #environments = new Set<Environment>();
  #pastOutput = '';

  constructor(options: LambdaRuntimeOptions, runtimeClient: string) {
    this.#options = options;
    this.#runtimeClient = runtimeClient;
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { stage = '' } = this.#options;
    const { url = '/' } = request;
    if (!url.startsWith(`${stage}/`)) {
      this.#refuse(response, 'MISSING_AUTHENTICATION_TOKEN');
      return;
    }
    request.url = url.slice(stage.length);
    const body = await readBody(request, this.#options.bodyBytesMax ?? 6 * 1024 * 1024);
    if (body === undefined) {
      response.setHeader('connection', 'close');
      this.#refuse(response, 'REQUEST_TOO_LARGE');
      return;
    }
    const environment = this.#findEnvironment();
    if (environment === undefined) {
      this.stats.throttled++;
      this.#refuse(response, 'THROTTLED');
      return;
    }
    const rawEvent = request.headers['x-raw-event'];
    const event =
      typeof rawEvent === 'string'
        ? (JSON.parse(rawEvent === EVENT_IN_BODY ? body.toString() : rawEvent) as object)
        : toLambdaEvent(this.#options.eventFormat ?? 'rest-api', request, body);
    environment.invoke(new Invocation(event, response, this.stats));
  }

  environments(): Environment[] {
    return [...this.#environments];
  }

  output(): string {
    return this.#pastOutput + [...this.#environments].map((environment) => environment.output).join('');
  }

  stop(): void {
    for (const environment of this.#environments) environment.kill();
  }

  #refuse(response: ServerResponse, type: keyof typeof GATEWAY_ANSWERS): void {
    const { status, headers, body } = this.#options.gatewayAnswers?.[type] ?? GATEWAY_ANSWERS[type];
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  }

  #findEnvironment(): Environment | undefined {
    for (const environment of this.#environments) {
      if (!environment.isIdle) continue;
      if (this.#options.spread && this.#environments.delete(environment)) this.#environments.add(environment);
      return environment;
    }
    return this.#environments.size < (this.#options.environmentsMax ?? 4) ? this.#startEnvironment() : undefined;
  }

  #startEnvironment(): Environment {
    const { directory, handler = 'index.handler', timeoutMs = 900_000, freeze = true, env = {}, as } = this.#options;
    const runtimeClient = as?.runtimeClient ?? this.#runtimeClient;
    const environment: Environment = new Environment(
      { directory, runtimeClient, handler, timeoutMs, freeze, env, as },
      this.stats,
      () => {
        this.#environments.delete(environment);
        this.#pastOutput += environment.output;
      },
    );
    this.#environments.add(environment);
    return environment;
  }
}

async function readBody(request: IncomingMessage, bytesMax: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
