import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { FakeEngineServer, type Received, sendJson } from '../fake-engine-server.ts';

/** One exchange with a real vLLM (test/fixtures/engines/README.md). */
export interface RecordedExchange {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly body?: Record<string, unknown>;
  readonly status: number;
  readonly contentType: string;
  readonly chunks: readonly string[];
}

export type RecordedRelease = '0.20.2' | '0.32.0';

export function recordedExchanges(release: RecordedRelease = '0.32.0'): readonly RecordedExchange[] {
  const file = new URL(`../../../fixtures/engines/vllm-${release}/exchanges.jsonl`, import.meta.url);
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as RecordedExchange);
}

/**
 * A server that answers as the recorded vLLM did. It finds a POST by its body. For one that was never recorded it
 * answers with the exchange that `next` names.
 */
export class RecordedVllm extends FakeEngineServer {
  readonly #exchanges: readonly RecordedExchange[];
  /** Name of the exchange that answers the next request for tokens. */
  next: string | undefined;

  constructor(release: RecordedRelease = '0.32.0') {
    super();
    this.#exchanges = recordedExchanges(release);
    for (const { method, path } of this.#exchanges) {
      this.on(`${method} ${path.split('?')[0]}`, (received) => this.#answer(received));
    }
  }

  exchange(name: string): RecordedExchange {
    const found = this.#exchanges.find((exchange) => exchange.name === name);
    if (found === undefined) throw new Error(`no recorded exchange ${name}`);
    return found;
  }

  #answer({ method, path, body, response }: Received): void {
    const isProbe = JSON.stringify(body.token_ids ?? body.prompt) === '[1]';
    const name = method === 'POST' && !isProbe && this.next !== undefined ? this.next : undefined;
    if (isProbe) {
      sendJson(response, 200, { choices: [{ index: 0, token_ids: [7], finish_reason: 'length' }] });
      return;
    }
    const same = this.#exchanges.filter((each) => each.method === method && plain(each.path) === plain(path));
    const exchange =
      name === undefined
        ? (same.find((each) => isDeepStrictEqual(each.body ?? {}, body)) ?? same[0])
        : this.exchange(name);
    if (exchange === undefined) {
      sendJson(response, 404, { detail: 'Not Found' });
      return;
    }
    response.writeHead(exchange.status, { 'content-type': exchange.contentType });
    for (const chunk of exchange.chunks) response.write(chunk);
    response.end();
  }
}

/** Without the query. */
function plain(path: string): string | undefined {
  return path.split('?')[0];
}
