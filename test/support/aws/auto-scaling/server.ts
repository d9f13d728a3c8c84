import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Account } from './account.ts';
import { act } from './api/actions.ts';
import { ApiError, Call } from './api/call.ts';
import { answerBody, errorBody } from './api/xml.ts';
import type { CallFault, CallFaults } from './faults.ts';

export interface ListeningServer {
  readonly url: string;
  stop(): Promise<void>;
}

/** Serves the account in the query protocol on 127.0.0.1. */
export async function serve(account: Account, faults: CallFaults): Promise<ListeningServer> {
  const server = createServer((request, response) => {
    answer(account, faults, request, response).catch((thrown: unknown) => response.destroy(thrown as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  account: Account,
  faults: CallFaults,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const parameters = Object.fromEntries(new URLSearchParams(await textOf(request)));
  const { Action: action = '' } = parameters;
  const fault = faults.next(action, parameters);
  const requestId = account.uuid();
  if (fault?.losesCall) {
    response.destroy();
    return;
  }
  if (fault?.effectAfterMs !== undefined) await account.clock.sleep(fault.effectAfterMs);
  const { status, body } = bodyOf(account, action, parameters, fault, requestId);
  if (fault?.answerAfterMs !== undefined) await account.clock.sleep(fault.answerAfterMs);
  if (fault?.losesAnswer) {
    response.destroy();
    return;
  }
  response.writeHead(status, { 'content-type': 'text/xml', 'x-amzn-requestid': requestId });
  response.end(body);
}

function bodyOf(
  account: Account,
  action: string,
  parameters: Readonly<Record<string, string>>,
  fault: CallFault | undefined,
  requestId: string,
): { readonly status: number; readonly body: string } {
  try {
    if (fault?.isThrottled) throw new ApiError('Throttling', 'Rate exceeded');
    if (fault?.error !== undefined) throw new ApiError(fault.error.code, fault.error.message, fault.error.status);
    return { status: 200, body: answerBody(action, act(account, action, new Call(parameters)), requestId) };
  } catch (thrown) {
    if (!(thrown instanceof ApiError)) throw thrown;
    return { status: thrown.status, body: errorBody(thrown.code, thrown.message, thrown.status, requestId) };
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}
