import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { UsageError } from '../../../shared/commands/config.ts';
import { explainRouting } from '../../../shared/commands/router-explain.ts';
import type { CandidateRecord, ExplanationRecord } from '../../../shared/scheduler/index.ts';

function candidate(workerId: string, cost: number, device: number): CandidateRecord {
  return {
    worker_id: workerId,
    dp_rank: 0,
    cost,
    overlap: { device, host_pinned: 0, disk: 0, shared: 0 },
    load: { prefill_tokens: 160, decode_blocks: 3, added_blocks: 20 - device, requests: 1 },
    terms: { prefill: cost - 3, decode: 3, requests: 0 },
    factor: 1,
  };
}

const EXPLANATION: ExplanationRecord = {
  request_id: 'r1',
  cost_model: 'dynamo',
  prompt_tokens: 320,
  blocks: 20,
  temperature: 0,
  waited_ms: 0,
  chosen: { worker_id: '7f', dp_rank: 0, reason: 'lowest-cost' },
  failure: null,
  candidates: [candidate('7f', 13.5, 10), candidate('80', 23, 0)],
};

let server: Server;
let url = '';
let models = ['m'];
const asked: unknown[] = [];

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    asked.push(`${request.method} ${request.url} ${body}`);
    const answer = (status: number, value: unknown): void => void response.writeHead(status).end(JSON.stringify(value));
    if (request.url === '/v1/models') answer(200, { data: models.map((id) => ({ id })) });
    else if (request.url?.endsWith('/gone')) answer(404, { error: { message: 'No decision is kept' } });
    else if (request.url?.endsWith('/split')) answer(200, { ...EXPLANATION, prefill: EXPLANATION });
    else answer(200, EXPLANATION);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => server.close());

describe('stator router explain', () => {
  it('shows the candidates of a request as a table', async () => {
    const text = await explainRouting(['r1', '--url', url]);
    expect(text.split('\n')).toEqual([
      'request  r1: 320 prompt tokens in 20 blocks, cost model dynamo',
      'chosen   worker 7f rank 0, the lowest cost',
      'columns  cost and its parts; cached blocks by tier; tokens to prefill, blocks in use,',
      '         blocks it adds, active requests',
      '',
      '   worker  rank   cost  prefill  decode  device  tokens  blocks  adds  active',
      '*  7f         0  13.50    10.50       3      10     160       3    10       1',
      '   80         0     23       20       3       0     160       3    20       1',
      '',
    ]);
  });

  it('shows the prefill decision before that of the decode worker', async () => {
    const lines = (await explainRouting(['split', '--url', url])).split('\n');
    expect(lines.filter((line) => /^(request|prefill|decode) /.test(line))).toEqual([
      'prefill  r1: 320 prompt tokens in 20 blocks, cost model dynamo',
      'decode   r1: 320 prompt tokens in 20 blocks, cost model dynamo',
    ]);
    expect(lines.filter((line) => line.startsWith('*'))).toHaveLength(2);
  });

  it('asks for a prompt with the only model there is, or the named one', async () => {
    asked.length = 0;
    await explainRouting(['--prompt', 'hello', `--url=${url}/`]);
    await explainRouting(['--prompt', 'hello', '--model', 'x', '--url', url]);
    expect(asked).toEqual([
      'GET /v1/models ',
      'POST /router/explain {"model":"m","prompt":"hello"}',
      'POST /router/explain {"model":"x","prompt":"hello"}',
    ]);
  });

  it('prints the answer itself with --json', async () => {
    expect(JSON.parse(await explainRouting(['r1', '--json', '--url', url]))).toEqual(EXPLANATION);
  });

  it('says why there is no answer', async () => {
    await expect(explainRouting(['gone', '--url', url])).rejects.toThrow('No decision is kept');
    await expect(explainRouting(['r1', '--url', 'http://127.0.0.1:1'])).rejects.toThrow('--url');
    models = ['a', 'b'];
    await expect(explainRouting(['--prompt', 'x', '--url', url])).rejects.toThrow('--model is needed: a, b');
  });

  it.each([[[]], [['r1', 'r2']], [['r1', '--prompt', 'x']], [['--nonsense']], [['r1', '--url', 'nowhere']]])(
    'refuses %j',
    async (argv) => {
      await expect(explainRouting(argv)).rejects.toThrow(UsageError);
    },
  );
});
