import { existsSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { ConsoleDecision, ConsolePlanner } from '../../shared/console/planner/wire.ts';
import type { ConsoleChange, ConsoleFleet } from '../../shared/console/wire/fleet.ts';
import type { ConsoleRequest } from '../../shared/console/wire/requests.ts';
import type { ConsoleWorker } from '../../shared/console/wire/worker.ts';
import { CHROMIUM, useBrowser } from '../support/browser.ts';
import { waitUntil } from '../support/wait-until.ts';

const FIGURES = {
  running: 0,
  requests_per_second: 0,
  tokens_per_second: 0,
  failed_share: null,
  hit_rate: null,
  ttft_ms: null,
  itl_ms: null,
};
const FLEET: ConsoleFleet = {
  at_ms: 0,
  frontend: { version: '1', stage: 'ready', chat_path: '/v1/chat/completions', host: 'here', pid: 7 },
  explains: false,
  totals: FIGURES,
  models: [
    {
      name: 'm',
      is_ready: true,
      reason: null,
      takes_chats: true,
      context_tokens: 0,
      workers: 1,
      base_model: null,
      figures: null,
      token_price: null,
    },
  ],
  workers: [],
  workers_left_out: 0,
  cold_starts: [],
  starting: [],
  cost: { hour_usd: null, types: [], workers_without_machine: 0 },
  frontends: { router_id: null, worker_requests: null, others: null, left_out: 0 },
  hour: {
    model: null,
    step_ms: 10_000,
    end_ms: 0,
    requests_per_second: [0],
    failed_per_second: [0],
    tokens_per_second: [0],
    ttft_p50_ms: [null],
    ttft_p95_ms: [null],
    itl_p50_ms: [null],
    itl_p95_ms: [null],
    workers: [1],
  },
};

const CHANGE: ConsoleChange = {
  at_ms: 0,
  stage: 'ready',
  totals: FIGURES,
  models: [],
  models_gone: [],
  workers: [],
  workers_gone: [],
  loads: [],
};

function workerOf(number: number): ConsoleWorker {
  return {
    id: String(number).padStart(4, '0'),
    model: 'm',
    pool: 'aggregated',
    endpoint: 'ns.c.generate',
    state: 'ready',
    ranks: 1,
    device: 'cuda',
    machine: null,
    requests: null,
    kv_blocks: null,
    kv_blocks_total: null,
    prefill_tokens: null,
  };
}

function rowOf(number: number, model: string, status: number | null = 200): ConsoleRequest {
  return {
    number,
    id: `id-${number}`,
    x_request_id: `x-${number}`,
    received_ms: 0,
    endpoint: 'chat_completions',
    model,
    key: null,
    status,
    error: null,
    worker: null,
    prompt_tokens: null,
    cached_tokens: null,
    output_tokens: null,
    ttft_ms: null,
    total_ms: null,
    cost_usd: null,
    moves: 0,
  };
}

const HOUR_MS = 3_600_000;
const DECISION: ConsoleDecision = {
  ...{ id: 0, at_ms: HOUR_MS, outcome: 'reached', outcome_words: 'carried out', reason: 'why', problem: null },
  ...{ previous: { decode: 1 }, targets: { decode: 2 }, begun_ms: null, inputs: { held: 3 }, details: [] },
};
const PLANNER: ConsolePlanner = {
  ...{ at_ms: 2 * HOUR_MS, why_none: null, problem: null, groups_left_out: 0, group: 'ns#m', config: null },
  groups: [
    { id: 'ns#m', namespace: 'ns', model: 'm' },
    { id: 'ns#other', namespace: 'ns', model: 'other' },
  ],
  tick: { at_ms: 2 * HOUR_MS, reason: 'no change', inputs: {} },
  points: [],
  decisions: [DECISION],
};

const pageOf = (requests: readonly ConsoleRequest[], next: number | null = null) => ({
  ...{ requests, next, kept: 1000, has_costs: false },
});
const eventOf = (name: string, data: unknown): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

/** Answers a request for data; the test plays the server. */
type Answer = (path: string, response: ServerResponse, request: IncomingMessage) => void;

function follow(response: ServerResponse, name: string, data: unknown): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(eventOf(name, data));
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

const TYPES = { '': 'text/html', 'console.css': 'text/css', 'console.js': 'text/javascript' } as const;

function sendFile(name: keyof typeof TYPES, response: ServerResponse): void {
  const path = join(import.meta.dirname, '../../dist/console-page', name === '' ? 'index.html' : name);
  const isPacked = existsSync(`${path}.gz`);
  response.writeHead(200, { 'content-type': TYPES[name], ...(isPacked ? { 'content-encoding': 'gzip' } : {}) });
  response.end(readFileSync(isPacked ? `${path}.gz` : path));
}

/** Counts the changes of the table of requests in the document. */
const COUNT_CHANGES = `window.changes = 0; new MutationObserver((records) => { window.changes += records.length; })
  .observe(document.querySelector('table.requests'), {
    subtree: true, childList: true, attributes: true, characterData: true,
  });`;

/** Counts the rows of requests that each task of the page draws, and the formatters that it makes; from its start. */
const COUNT_WORK = `window.rowsOfTask = 0; window.formatters = 0;
  new MutationObserver((records) => {
    const added = records.flatMap(({ addedNodes }) => [...addedNodes]).filter((node) => node.nodeType === 1);
    const within = added.flatMap((node) => [node, ...node.querySelectorAll('*')]);
    const rows = new Set(within.filter((node) => node.matches('tbody tr')));
    window.rowsOfTask = Math.max(window.rowsOfTask, rows.size);
  }).observe(document, { subtree: true, childList: true });
  for (const name of ['NumberFormat', 'DateTimeFormat', 'Collator']) {
    const construct = (...given) => { window.formatters++; return Reflect.construct(...given); };
    Intl[name] = new Proxy(Intl[name], { construct });
  }
  for (const each of [Number, Date]) {
    for (const name of Object.getOwnPropertyNames(each.prototype).filter((name) => name.startsWith('toLocale'))) {
      each.prototype[name] = function () { window.formatters++; return String(this); };
    }
  }`;
/** Rows of requests that one task may draw, with the two that stand for the others. */
const ROWS_OF_TASK_MAX = 14;

describe.runIf(CHROMIUM !== '')('the page of the console', () => {
  const openPage = useBrowser();
  const opened: Page[] = [];
  const open: typeof openPage = async (...given) => {
    const watched = await openPage(...given);
    opened.push(watched.page);
    return watched;
  };
  let server: Server;
  let answer: Answer = () => {};
  const at = (place: string): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}/console/#/${place}`;

  beforeAll(async () => {
    server = createServer((request, response) => {
      const path = request.url ?? '';
      const file = path.slice('/console/'.length);
      if (file in TYPES) sendFile(file as keyof typeof TYPES, response);
      else answer(path, response, request);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  // A page of an earlier test would connect again, and get the answers of another one
  afterEach(() => Promise.all(opened.splice(0).map((page) => page.context().close())).then(() => undefined));
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  it('shows a page of 1,000 workers as tiles, and how each of them is', async () => {
    let events: ServerResponse | undefined;
    const machine = { instance_id: 'i-1', instance_type: 'g6e.xlarge', zone: 'a', market: 'spot' };
    const busy = { ...workerOf(0), machine, requests: 12, kv_blocks: 950, kv_blocks_total: 1000, prefill_tokens: 5000 };
    const others = Array.from({ length: 999 }, (_, at) => workerOf(at + 1));
    answer = (_path, response) => {
      follow(response, 'fleet', { ...FLEET, workers: [...others, busy] });
      events = response;
    };
    const { page, faults, audit } = await open(at('fleet'));
    const tiles = page.locator('.tile');
    await tiles.first().waitFor();
    expect(await tiles.count()).toBe(60);
    const first = tiles.first();
    expect(await first.innerText()).toMatch(
      /0000\s+spot\s+m, aggregated\s+ready[\s\S]*95 %[\s\S]*12 requests, 5000 tokens/,
    );
    events?.write(
      eventOf('change', {
        ...CHANGE,
        at_ms: 1000,
        workers: [{ ...workerOf(1), state: 'draining' }],
        workers_gone: ['0002'],
        loads: [['0000', 3, 10, 0]],
        starting: [{ instance_id: 'i-9', model: 'm', phase: 'weights', since_ms: -60_000 }],
      }),
    );
    await page.getByText('loading weights for 61.0 s').waitFor();
    expect(await page.locator('.tile.starting').innerText()).toContain('i-9');
    expect(await page.locator('.tile', { hasText: '0000' }).innerText()).toMatch(/1 %[\s\S]*3 requests/);
    expect(await page.locator('.tile.draining').innerText()).toContain('0001');
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByText('61 to 120 of 1001 workers').waitFor();
    await page.getByLabel('Filter workers').fill('gone');
    await page.getByText('1 workers').waitFor();
    expect(await page.locator('.tile').innerText()).toContain('0002');
    await page.getByLabel('Filter workers').fill('');
    expect(await audit()).toEqual([]);
    await page.getByRole('link', { name: 'Table', exact: true }).click();
    await page.locator('[aria-label="Table of workers"] tbody tr').first().waitFor();
    expect(await page.locator('[aria-label="Table of workers"] tbody tr').count()).toBe(60);
    events?.write(eventOf('change', { ...CHANGE, at_ms: 70_000 }));
    await page.getByText('of 1000 workers').waitFor();
    expect(faults).toEqual([]);
  });

  it('shows what machines cost as far as their prices are known, and the frontends that it knows', async () => {
    const types = [
      { type: 'g6e.xlarge', market: 'on-demand', machines: 3, hour_usd: 1.5 },
      { type: '<img src=x onerror="window.pwned=1">', market: 'spot', machines: 2, hour_usd: null },
    ];
    let events: ServerResponse | undefined;
    answer = (_path, response) => {
      follow(response, 'fleet', FLEET);
      events = response;
    };
    const { page, faults, audit } = await open(at('fleet'), { width: 390 });
    await page.getByText('Machines with workers: unknown an hour').waitFor();
    await page.getByText('It does not know other frontends').waitFor();
    const frontends = {
      router_id: 'aa',
      worker_requests: 40,
      others: [{ router_id: 'bb', bookings: 28 }],
      left_out: 0,
    };
    const cost = { hour_usd: 4.5, types, workers_without_machine: 1 };
    events?.write(eventOf('change', { ...CHANGE, cost, frontends }));
    const summary = page.locator('summary', { hasText: 'Machines with workers' });
    await page.getByText('$4.50').first().waitFor();
    expect(await summary.innerText()).toContain(
      'an hour; the price of 2 machines is unknown, and 1 workers do not state their machine',
    );
    await summary.click();
    expect(await page.locator('[aria-label="Table of costs"]').innerText()).toMatch(/spot\s+2\s+unknown\s+unknown/);
    const table = await page.locator('[aria-label="Table of frontends"]').innerText();
    expect(table).toMatch(/aa this one\s+0[\s\S]*bb\s+28\s+only at its own console/);
    await page.getByText('workers report 40 requests').waitFor();
    expect(await audit()).toEqual([]);
    expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    expect(await page.evaluate('window.pwned')).toBeUndefined();
    expect(faults).toEqual([]);
  });

  it('shows the cold start of held requests as a bar of its phases', async () => {
    const model = '<img src=x onerror="window.pwned=1">';
    const phases = [
      { name: 'decide', from_ms: 0, to_ms: 2000 },
      { name: 'launch', from_ms: 2000, to_ms: 40_000 },
      { name: 'image', from_ms: 40_000, to_ms: 70_000 },
      { name: 'weights', from_ms: 70_000, to_ms: null },
    ] as const;
    const start = { model, requests: 3, since_ms: 0, ready_ms: null, ended_ms: null, phases, note: null };
    let events: ServerResponse | undefined;
    answer = (_path, response) => {
      follow(response, 'fleet', { ...FLEET, at_ms: 80_000, cold_starts: [start] });
      events = response;
    };
    for (const options of [{}, { colorScheme: 'dark', width: 390 }] as const) {
      const { page, faults, audit } = await open(at('fleet'), options);
      await page.getByText('3 requests waiting for 80.0 s').waitFor();
      const legend = await page.locator('.legend').innerText();
      expect(legend).toMatch(/deciding 2.00 s\s+launching 38.0 s\s+pulling the image 30.0 s\s+loading weights 10.0 s/);
      const widths = await page
        .locator('.phase')
        .evaluateAll((all) => all.map((each) => each.getBoundingClientRect().width));
      expect(widths[1]! / widths[2]!).toBeCloseTo(38 / 30, 1);
      expect(await audit()).toEqual([]);
      expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
      const ended = { ...start, ready_ms: 90_000, ended_ms: 90_100 };
      events?.write(eventOf('change', { ...CHANGE, at_ms: 91_000, cold_starts: [ended] }));
      await page.getByText('ready after 90.0 s').waitFor();
      await page.getByText('3 requests waited').waitFor();
      expect(await page.evaluate('window.pwned')).toBeUndefined();
      expect(faults).toEqual([]);
    }
  });

  it('connects again if its connection falls silent', async () => {
    let connections = 0;
    answer = (_path, response) => {
      connections++;
      follow(response, 'fleet', FLEET);
    };
    const { page } = await open('about:blank');
    await page.clock.install();
    await page.goto(at('fleet'));
    await page.locator('.link.live').waitFor();
    const before = connections;
    await waitUntil(
      async () => {
        await page.clock.fastForward(50_000);
        return connections > before;
      },
      { timeoutMs: 30_000 },
    );
  });

  it('says what is wrong with a key that no header can have', async () => {
    answer = (_path, response) => sendJson(response, 401, { error: { message: 'No API key' } });
    const { page } = await open(at('fleet'));
    await page.getByLabel(/Admin key/).fill('ключ');
    await page.getByRole('button', { name: 'Open the console' }).click();
    await page.getByText('a letter that no key has').waitFor();
  });

  it('shows an address that is not well encoded', async () => {
    answer = (path, response) => {
      sendJson(response, 404, { error: { message: `no request ${path}` } });
    };
    const { page, faults } = await open(at('requests/100%'));
    await page.getByText('no request /console/api/requests/100%25').waitFor();
    expect(faults.filter((fault) => fault.startsWith('error:'))).toEqual([]);
  });

  it('ends an answer that is under way when it is left', async () => {
    let state = 'none';
    answer = (path, response) => {
      if (path.startsWith('/console/api')) return follow(response, 'fleet', FLEET);
      response.on('close', () => {
        state = 'ended';
      });
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"id": "1", "choices": [{"delta": {"content": "word"}}]}\n\n');
      state = 'begun';
      return undefined;
    };
    const { page } = await open(at('try'));
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('word', { exact: true }).waitFor();
    expect(state).toBe('begun');
    await page.getByRole('link', { name: 'Fleet' }).click();
    await waitUntil(() => state === 'ended');
  });

  it('shows no older requests of a filter that was changed meanwhile', async () => {
    let older: ServerResponse | undefined;
    answer = (path, response) => {
      if (path.includes('before=')) older = response;
      else if (path.includes('model=a')) follow(response, 'requests', pageOf([rowOf(200, 'a')], 200));
      else follow(response, 'requests', pageOf([rowOf(201, 'b')]));
    };
    const { page } = await open(at('requests?model=a'));
    const rows = page.locator('table.requests tbody tr');
    await waitUntil(() => older !== undefined);
    await page.goto(at('requests?model=b'));
    await page.locator('tr', { hasText: 'b' }).locator('td[title=b]').waitFor();
    sendJson(older!, 200, pageOf([rowOf(100, 'a')]));
    await page.evaluate('new Promise((resolve) => setTimeout(resolve, 0))');
    await page.evaluate('fetch("/console/")'); // a whole exchange later, an answer has been read
    expect(await rows.count()).toBe(1);
  });

  it('draws a few rows at a time and what has changed, and not more, with 10,000 requests in its list', async () => {
    let events: ServerResponse | undefined;
    const newest = 10_000;
    answer = (path, response) => {
      const [, before] = /before=(\d+)/.exec(path) ?? [];
      const from = Number(before ?? newest);
      const page = pageOf(
        Array.from({ length: 100 }, (_, at) => rowOf(from - 1 - at, 'm')),
        from > 100 ? from - 100 : null,
      );
      if (before !== undefined) {
        events?.write(': \n\n'); // a connection that is silent for long would be made again
        return sendJson(response, 200, page);
      }
      follow(response, 'requests', page);
      events = response;
    };
    const { page, faults } = await open('about:blank');
    await page.addInitScript({ content: COUNT_WORK });
    await page.goto(at('requests'));
    const table = page.locator('table.requests');
    await waitUntil(
      async () => {
        await page.evaluate('{ const box = document.querySelector(".tall"); box.scrollTop = box.scrollHeight; }');
        return (await table.getAttribute('aria-rowcount')) === '10001';
      },
      { timeoutMs: 150_000, what: 'all requests in the list' },
    );
    await page.evaluate('document.querySelector(".tall").scrollTop = 0');
    await table.locator('tr[aria-rowindex="2"]').waitFor();
    await table.locator('tr[aria-rowindex="30"]').waitFor({ state: 'attached' });
    // What takes a browser longest: new rows with their layout, and its first formatter of numbers or times
    expect(await page.evaluate('window.rowsOfTask')).toBeGreaterThan(1);
    expect(await page.evaluate('window.rowsOfTask')).toBeLessThanOrEqual(ROWS_OF_TASK_MAX);
    expect(await page.evaluate('window.formatters')).toBe(0);
    await page.evaluate(COUNT_CHANGES);
    const changes = async (): Promise<number> => Number(await page.evaluate('window.changes'));
    // The end of a request changes one cell
    events?.write(eventOf('changed', { requests: [rowOf(newest - 1, 'm', 503)], left_out: 0 }));
    await table.locator('tr[aria-rowindex="2"]', { hasText: '503' }).waitFor();
    expect(await changes()).toBeLessThan(10);
    // A new one moves the others down: their rows stay, and nothing in them is drawn again
    await page.evaluate('window.first = document.querySelector("tr[aria-rowindex=\'2\']")');
    events?.write(eventOf('changed', { requests: [rowOf(newest, 'new')], left_out: 0 }));
    await table.locator('tr[aria-rowindex="2"] td[title=new]').waitFor();
    expect(await page.evaluate('window.first.getAttribute("aria-rowindex")')).toBe('3');
    const drawn = await page.locator('table.requests tbody tr').count();
    expect(drawn).toBeLessThan(80);
    expect(await changes()).toBeLessThan(2 * drawn + 20);
    expect(await page.evaluate('window.rowsOfTask')).toBeLessThanOrEqual(ROWS_OF_TASK_MAX);
    expect(faults).toEqual([]);
  }, 300_000);

  it('shows what tokens cost in the list, at a request and beside an answer, if prices are known', async () => {
    const priced = { ...FLEET.models[0]!, token_price: { input_usd: 2, output_usd: 10, cached_usd: 0.5 } };
    const usage = { prompt_tokens: 100, completion_tokens: 11, prompt_tokens_details: { cached_tokens: 60 } };
    const row = { ...rowOf(1, 'm'), cost_usd: 0.00022 };
    const detail = { request: row, stages: [], attempts: [], moves: [], decision: null, no_decision: '' };
    answer = (path, response) => {
      if (path.endsWith('/requests/1')) return sendJson(response, 200, { ...detail, text: null, no_text: '' });
      if (path.includes('view=requests')) {
        const told = pageOf([row, rowOf(0, 'free')]);
        return follow(response, 'requests', { ...told, has_costs: !path.includes('model=') });
      }
      if (path.startsWith('/console/api')) return follow(response, 'fleet', { ...FLEET, models: [priced] });
      const chunk = { id: '1', usage, choices: [{ delta: { content: 'word' }, finish_reason: 'stop' }] };
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      return response.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
    };
    const { page, faults, audit } = await open(at('requests'));
    await page.getByText('$0.00022').waitFor();
    expect(await page.locator('table.requests thead').innerText()).toContain('Cost');
    expect(await audit()).toEqual([]);
    await page.goto(at('requests/1'));
    await page.locator('.facts', { hasText: 'Cost' }).getByText('$0.00022').waitFor();
    await page.goto(at('try'));
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText(/60 cached, 11 output tokens.* in all, costs \$0.00022, ended with stop/).waitFor();
    await page.goto(at('requests?model=m'));
    await page.locator('table.requests tbody tr').first().waitFor();
    expect(await page.locator('table.requests thead').innerText()).not.toContain('Cost');
    expect(faults).toEqual([]);
  });

  it('drops requests that have ended from a list of running ones', async () => {
    let events: ServerResponse | undefined;
    answer = (_path, response) => {
      follow(response, 'requests', pageOf([rowOf(1, 'm', null), rowOf(0, 'm', null)]));
      events = response;
    };
    const { page } = await open(at('requests?outcome=running'));
    const rows = page.locator('table.requests tbody tr');
    await waitUntil(async () => (await rows.count()) === 2);
    events?.write(eventOf('changed', { requests: [rowOf(0, 'm')], left_out: 0 }));
    await waitUntil(async () => (await rows.count()) === 1);
  });

  it('shows the next request without the failure of the one before, and asks again after a failure', async () => {
    let asked = 0;
    answer = (path, response) => {
      if (path.endsWith('/1')) return sendJson(response, 404, { error: { message: 'forgotten' } });
      if (++asked === 1) return void response.destroy();
      const request = rowOf(2, 'm');
      return sendJson(response, 200, { request, stages: [], attempts: [], moves: [], decision: null, no_decision: '' });
    };
    const { page } = await open(at('requests/1'));
    await page.getByText('forgotten').waitFor();
    await page.goto(at('requests/2'));
    await page.getByText('Request id-2').waitFor();
    expect(await page.locator('[role=alert]').count()).toBe(0);
  });

  it('shows what became of each decision, and a change of it', async () => {
    let events: ServerResponse | undefined;
    const outcomes = ['waiting', 'under_way', 'overtaken', 'late', 'stalled', 'refused', 'advice'] as const;
    const decisions = outcomes.map((outcome, at) => ({ ...DECISION, id: at + 1, outcome }));
    answer = (_path, response) => {
      follow(response, 'planner', { ...PLANNER, decisions: [...decisions.toReversed(), DECISION] });
      events = response;
    };
    const { page } = await open(at('planner?decision=5'));
    const rows = page.locator('[aria-label="Table of decisions"] tbody tr');
    await rows.first().waitFor();
    expect(await rows.locator('.state').allInnerTexts()).toEqual([
      ...outcomes.map((outcome) => outcome.replace('_', ' ')).toReversed(),
      'reached',
    ]);
    const { points: _points, decisions: _decisions, ...head } = PLANNER;
    const change = { ...DECISION, id: 5, outcome: 'under_way', problem: 'waits for <b>GPUs</b>', details: ['code X'] };
    const told = { ...head, points: [], points_gone: [], decisions: [change], decisions_gone: [0] };
    events?.write(eventOf('planned', told));
    await page.locator('.opened', { hasText: 'waits for <b>GPUs</b>' }).getByText('code X').waitFor();
    await waitUntil(async () => (await rows.count()) === outcomes.length);
  });

  it('doubts that a planner runs whose last tick is old, and follows another one', async () => {
    const paths: string[] = [];
    answer = (path, response) => {
      paths.push(path);
      const isOther = path.includes('model=ns%23other');
      const tick = { at_ms: isOther ? 2 * HOUR_MS : HOUR_MS, reason: 'no change', inputs: {} };
      follow(response, 'planner', { ...PLANNER, tick, group: isOther ? 'ns#other' : 'ns#m' });
    };
    const { page } = await open(at('planner'));
    await page.getByText('the planner may not run').waitFor();
    await page.getByLabel('Model').selectOption('other (ns)');
    await page.getByText('the planner may not run').waitFor({ state: 'detached' });
    await waitUntil(() => paths.length > 1);
    expect(paths).toEqual(['/console/api?view=planner', '/console/api?view=planner&model=ns%23other']);
  });
});
