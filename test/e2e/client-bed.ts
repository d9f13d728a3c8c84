import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect } from 'vitest';
import { type Deployment, startDeployment } from '../support/dynamo-http/deployments.ts';
import { FIXTURES } from '../support/dynamo-http/records.ts';
import type { SeenRequest } from '../support/scripted-engine.ts';
import { CLIENT_SCRIPTS, type ClientScript } from './client-scripts.ts';

/** A server whose engine plays what a prompt asks for (`client-scripts.ts`). */
export interface ScriptedServer {
  /** Known once the suite's `beforeAll` has run. */
  readonly url: string;
  /** Requests that the engine received, oldest first. */
  readonly seen: readonly SeenRequest[];
  readonly last: SeenRequest | undefined;
}

/** Starts the server before the suite's tests and stops it after them. */
export function useScriptedServer(): ScriptedServer {
  let server: Deployment;
  beforeAll(async () => {
    server = await startDeployment('default', FIXTURES, CLIENT_SCRIPTS);
  });
  afterAll(() => server.close());
  return {
    get url() {
      return `http://127.0.0.1:${server.port}`;
    },
    get seen() {
      return server.engine.seen;
    },
    get last() {
      return server.engine.seen.at(-1);
    },
  };
}

/** A prompt to which the engine answers with `script`. */
export function promptFor(script: ClientScript): string {
  return `hi [[s:${script}]]`;
}

/** The answer of a server that refuses requests for a while. */
export interface Refusal {
  readonly status: number;
  readonly body: unknown;
}

/** A frontend without a ready worker. */
export const UNAVAILABLE: Refusal = {
  status: 503,
  body: { error: { message: 'not ready', type: 'server_error', param: null, code: 'service_unavailable' } },
};

/** The answer that Anthropic's clients get from a frontend whose workers are all busy. */
export const OVERLOADED: Refusal = {
  status: 529,
  body: {
    type: 'error',
    error: { type: 'overloaded_error', message: 'Service temporarily overloaded' },
    request_id: 'req_1',
  },
};

/** A server before the real one that can refuse. */
export interface Relay {
  readonly url: string;
  /** Requests since the last `refuseNext`. */
  readonly attempts: number;
  /** Answers the next `times` requests with `refusal`, and passes on what comes then. */
  refuseNext(times: number, refusal: Refusal): void;
}

/** Starts a relay to `target` before the suite's tests and stops it after them. */
export function useRelay(target: () => string): Relay {
  let server: Server;
  let refused: Refusal = UNAVAILABLE;
  let refusalsLeft = 0;
  let attempts = 0;
  beforeAll(async () => {
    server = createServer((request, response) => {
      attempts++;
      if (refusalsLeft > 0) {
        refusalsLeft--;
        response.writeHead(refused.status, { 'content-type': 'application/json', 'retry-after-ms': '1' });
        response.end(JSON.stringify(refused.body));
        return;
      }
      response.writeHead(307, { location: `${target()}${request.url}` }).end();
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
  });
  afterAll(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    get url() {
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a listening TCP server has an AddressInfo
    },
    get attempts() {
      return attempts;
    },
    refuseNext(times, refusal) {
      refused = refusal;
      refusalsLeft = times;
      attempts = 0;
    },
  };
}

/** Returns the error that `work` fails with. */
export async function failureOf(work: PromiseLike<unknown>): Promise<unknown> {
  return work.then(
    () => expect.fail('the request succeeded'),
    (error: unknown) => error,
  );
}
