import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../shared/clock/index.ts';
import { PrometheusTraffic } from '../../../../shared/commands/planner/prometheus.ts';
import { NO_TRAFFIC } from '../../../../shared/protocol/index.ts';

const NEVER = new AbortController().signal;
const BEGIN_S = 1_800_000_000;

/** A value as Prometheus answers it; undefined where it knows no such series. */
function vector(value: string | undefined): string {
  const result = value === undefined ? [] : [{ metric: {}, value: [BEGIN_S, value] }];
  return JSON.stringify({ status: 'success', data: { resultType: 'vector', result } });
}

interface Asked {
  readonly query: string;
  readonly metric: string;
  readonly seconds: number;
  readonly authorization: string | undefined;
}

interface Bed {
  readonly asked: Asked[];
  readonly problems: string[];
  readonly url: string;
  read(nowS: number, signal?: AbortSignal): ReturnType<PrometheusTraffic['read']>;
}

const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((close) => close()));
});

interface BedOptions {
  readonly model?: string | undefined;
  readonly namespace?: string;
  readonly timeoutMs?: number;
  readonly token?: string;
  readonly prefix?: string;
}

/** A server that says `said` of a metric without its prefix, or answers in another way with `answer`. */
async function bedOf(
  said: (metric: string) => string | undefined,
  { model = 'm', namespace = 'ns', timeoutMs = 5000, token, prefix }: BedOptions = {},
  answer?: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Bed> {
  const asked: Asked[] = [];
  const problems: string[] = [];
  const server = createServer((request, response) => {
    const at = new URL(request.url ?? '/', 'http://localhost');
    const query = at.searchParams.get('query') ?? '';
    const [, metric = '', seconds] = /(?:dynamo_frontend|my_pre)_(\w+)(?:\{.*\})?\[(\d+)s\]/.exec(query) ?? [];
    asked.push({ query, metric, seconds: Number(seconds), authorization: request.headers.authorization });
    if (answer !== undefined) return answer(request, response);
    response.writeHead(at.pathname === '/api/v1/query' ? 200 : 404, { 'content-type': 'application/json' });
    response.end(vector(said(metric)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const onProblem = (problem: string): void => void problems.push(problem);
  const traffic = new PrometheusTraffic({
    url,
    token,
    timeoutMs,
    clock: systemClock,
    namespace,
    ...(prefix === undefined ? {} : { prefix }),
    onProblem,
  });
  return { asked, problems, url, read: (nowS, signal = NEVER) => traffic.read(nowS, model, signal) };
}

const GROWN: Readonly<Record<string, string>> = {
  requests_started_total: '60',
  time_to_first_token_seconds_sum: '6.5',
  time_to_first_token_seconds_count: '50',
  inter_token_latency_seconds_sum: '10',
  inter_token_latency_seconds_count: '500',
  input_sequence_tokens_sum: '60000',
  input_sequence_tokens_count: '60',
  output_sequence_tokens_sum: '5500',
  output_sequence_tokens_count: '55',
  request_duration_seconds_sum: '121.5',
  request_duration_seconds_count: '54',
};

describe('traffic that Prometheus counted', () => {
  it('is asked for by the prefix of the frontends’ metrics', async () => {
    const bed = await bedOf((metric) => GROWN[metric], { prefix: 'my-pre' });
    await bed.read(BEGIN_S);
    expect(bed.asked.map(({ query }) => query)).toEqual(
      bed.asked.map(() => expect.stringMatching(/^sum\(increase\(my_pre_/)),
    );
    expect(bed.asked.length).toBeGreaterThan(5);
  });

  it('begins with nothing, and then adds what each sum has grown by', async () => {
    const bed = await bedOf((metric) => GROWN[metric]);
    expect(await bed.read(BEGIN_S)).toEqual(NO_TRAFFIC); // what was before nobody asked for
    expect(await bed.read(BEGIN_S + 60)).toEqual({
      ...NO_TRAFFIC,
      started: 60,
      ttft_sum_s: 6.5,
      ttft_count: 50,
      itl_sum_s: 10,
      itl_count: 500,
      isl_sum: 60_000,
      isl_count: 60,
      osl_sum: 5500,
      osl_count: 55,
      dur_sum_s: 121.5,
      dur_count: 54,
    });
    expect(await bed.read(BEGIN_S + 120)).toMatchObject({ started: 120, ttft_sum_s: 13, dur_count: 108 });
    expect(bed.problems).toEqual([]);
  });

  it('asks for no window that is shorter than samples are apart, and takes its share of it', async () => {
    const bed = await bedOf((metric) => GROWN[metric]);
    await bed.read(BEGIN_S);
    expect(await bed.read(BEGIN_S + 5)).toMatchObject({ started: 10, isl_sum: 10_000 }); // 60 in 30 s
    await bed.read(BEGIN_S + 5 + 77);
    expect([...new Set(bed.asked.map(({ seconds }) => seconds))]).toEqual([30, 77]);
  });

  it('asks for the model whatever its case, in its namespace, and escapes what is special in names', async () => {
    const bed = await bedOf((metric) => GROWN[metric], { model: 'Org/m-1.5"', namespace: 'a+b' });
    await bed.read(BEGIN_S);
    expect(bed.asked[0]?.query).toBe(
      String.raw`sum(increase(dynamo_frontend_requests_started_total{model=~"(?i)Org/m-1\\.5\"",dynamo_namespace=~"a\\+b|"}[30s]))`,
    );
    expect(bed.asked[0]?.authorization).toBeUndefined();
  });

  it('shows its token', async () => {
    const bed = await bedOf((metric) => GROWN[metric], { token: 'secret' });
    await bed.read(BEGIN_S);
    expect(new Set(bed.asked.map(({ authorization }) => authorization))).toEqual(new Set(['Bearer secret']));
  });

  it('takes the ended requests of frontends that do not count those that begin', async () => {
    const old: Readonly<Record<string, string>> = { requests_total: '30' };
    const bed = await bedOf((metric) => old[metric]);
    await bed.read(BEGIN_S);
    expect(await bed.read(BEGIN_S + 30)).toEqual({ ...NO_TRAFFIC, started: 30 });
  });

  it('takes NaN as a window without requests', async () => {
    const bed = await bedOf(() => 'NaN');
    await bed.read(BEGIN_S);
    expect(await bed.read(BEGIN_S + 30)).toEqual(NO_TRAFFIC);
    expect(bed.problems).toEqual([]);
  });

  it.each<[string, (response: ServerResponse) => void, RegExp]>([
    [
      'an error',
      (response) => void response.writeHead(500).end('the store is full'),
      /it answered 500: the store is full/,
    ],
    ['no JSON', (response) => void response.end('<html>'), /JSON/],
    ['an answer of another shape', (response) => void response.end('{"data":[1,2]}'), /it has no count of requests/],
    ['no such series', (response) => void response.end(vector(undefined)), /it has no count of requests of this model/],
    ['infinity', (response) => void response.end(vector('+Inf')), /it said \+Inf/],
    ['no number', (response) => void response.end(vector('many')), /it said many/],
    ['a negative count', (response) => void response.end(vector('-3')), /it said -3/],
    ['a count that cannot be', (response) => void response.end(vector('1e16')), /it said 1e16/],
    ['too much', (response) => void response.end('x'.repeat((1 << 20) + 1)), /its answer has 1048577 bytes/],
    ['the end of the connection', (response) => void response.destroy(), /fetch failed/],
  ])('does not know the demand where the answer is %s, and says why', async (_, answer, problem) => {
    const bed = await bedOf(
      () => undefined,
      {},
      (_request, response) => answer(response),
    );
    expect(await bed.read(BEGIN_S)).toBeUndefined();
    expect(bed.problems).toEqual([expect.stringMatching(problem)]);
    expect(bed.problems[0]).toContain(`Prometheus at ${bed.url}: `);
  });

  it('counts what it missed while nothing could be read', async () => {
    let isDown = false;
    const bed = await bedOf(
      () => undefined,
      {},
      (request, response) => {
        const seconds = Number(/\[(\d+)s\]/.exec(decodeURIComponent(request.url ?? ''))?.[1]);
        if (isDown) response.writeHead(503).end();
        else response.end(vector(`${seconds}`)); // one a second
      },
    );
    await bed.read(BEGIN_S);
    isDown = true;
    expect(await bed.read(BEGIN_S + 60)).toBeUndefined();
    isDown = false;
    expect(await bed.read(BEGIN_S + 120)).toMatchObject({ started: 120 });
  });

  it('gives up on a server that says nothing', async () => {
    const bed = await bedOf(
      () => undefined,
      { timeoutMs: 20 },
      () => {},
    );
    expect(await bed.read(BEGIN_S)).toBeUndefined();
    expect(bed.problems).toEqual([expect.stringMatching(/took more than 20 ms/)]);
  });

  it('ends with the reason of a caller who has given up, and says nothing of a problem', async () => {
    const given = new AbortController();
    const reason = new Error('given up');
    const bed = await bedOf(
      () => undefined,
      {},
      () => given.abort(reason),
    );
    await expect(bed.read(BEGIN_S, given.signal)).rejects.toBe(reason);
    expect(bed.problems).toEqual([]);
  });
});
