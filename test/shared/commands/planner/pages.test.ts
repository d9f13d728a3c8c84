import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { PlannerHistory } from '../../../../shared/commands/planner/history.ts';
import { PlannerPages } from '../../../../shared/commands/planner/pages.ts';
import { renderPlannerPage } from '../../../../shared/commands/planner/planner-page.ts';
import type { ConsolePlanner, ConsoleWhatIf } from '../../../../shared/console/planner/wire.ts';
import { type LawTick, parsePlannerConfig } from '../../../../shared/planner/index.ts';
import { freePort, waitUntil } from '../../../support/index.ts';
import { fleetPlannerBed } from '../../../support/planner/fleet-planner-bed.ts';
import { heldAt } from '../../../support/planner/fleet-signals.ts';

const BEGIN_MS = 1_800_000_000_000;
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

function tickOf(at: number, parts: Partial<LawTick> = {}): LawTick {
  return {
    atS: BEGIN_MS / 1000 + at,
    seconds: 5,
    effect: { reason: `no change: tick ${at}`, targets: { decode: 3 } },
    counts: { decode: { ready: 2, starting: 1 } },
    started: 10,
    running: 4,
    held: 0,
    ttftMs: 120,
    ...parts,
  };
}

async function bedOf(raw: Readonly<Record<string, unknown>> = {}) {
  const off = { live_dashboard_port: 0, control_api_port: 0, report_interval_hours: null };
  const bed = fleetPlannerBed({ config: { ...off, ...raw }, engines: {} });
  const { planner: fleet, store, clock, logger } = bed;
  const pages = new PlannerPages({ fleet, store, clock, logger, gpusOf: () => 2 });
  fleet.onTick((tick) => pages.ticked(tick));
  closing.push(
    () => fleet.close(),
    () => pages.close(),
  );
  const urls = await pages.serve();
  return { ...bed, fleet, pages, urls };
}

/** The status of a request whose `Host` is another than its URL's. */
function asHost(url: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { headers: { host } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on('error', reject).end();
  });
}

describe('the control API of a planner', () => {
  const served = async (raw: Readonly<Record<string, unknown>> = {}) => {
    const bed = await bedOf({ control_api_port: await freePort(), ...raw });
    const url = bed.urls.control ?? '';
    const patch = async (body: string): Promise<readonly [number, Record<string, unknown>]> => {
      const response = await fetch(url, { method: 'PATCH', body });
      return [response.status, (await response.json()) as Record<string, unknown>];
    };
    return { ...bed, url, patch };
  };

  it('has the bounds of the pools that there are', async () => {
    const { url } = await served({ max_gpu_budget: 20, min_endpoint: 2 });
    expect(await (await fetch(url)).json()).toEqual({
      mode: 'agg',
      min_endpoint: 2,
      min_gpu_budget: -1,
      max_gpu_budget: 20,
    });
    const two = await served({ mode: 'disagg', min_endpoint: 2, prefill_min_endpoint: 3, max_gpu_budget: 20 });
    expect(await (await fetch(two.url)).json()).toEqual({
      mode: 'disagg',
      prefill_min_endpoint: 3,
      decode_min_endpoint: 2,
      min_gpu_budget: -1,
      max_gpu_budget: 20,
    });
  });

  it('changes them: the next tick goes by them', async () => {
    const { patch, fleet, scaled, pass, lines } = await served();
    void fleet.run();
    fleet.hear(heldAt(0, 0).signal);
    await pass(100);
    expect(scaled.at(-1)).toBe(1);
    expect(await patch('{"min_endpoint": 3, "max_gpu_budget": 64}')).toEqual([
      200,
      { mode: 'agg', min_endpoint: 3, min_gpu_budget: -1, max_gpu_budget: 64 },
    ]);
    for (let at = 0; at < 20; at++) await pass(1000);
    expect(scaled.at(-1)).toBe(3);
    const changed = lines.filter(({ message }) => message === 'the bounds were changed');
    expect(changed).toMatchObject([{ fields: { min_endpoint: 3 } }]);
  });

  it.each([
    ['{', 400, /valid JSON/],
    ['[1]', 400, /JSON object/],
    ['{}', 400, /min_endpoint, prefill_min_endpoint/],
    ['{"min_endpoints": 1}', 400, /unknown: min_endpoints; allowed: min_endpoint/],
    [`{"min_endpoint": 1, "x": "${'y'.repeat(5000)}"}`, 400, /at most 4096 bytes/],
    ['{"min_endpoint": -1}', 422, /min_endpoint: allowed: a whole number from 0 to 1000000, got -1/],
    ['{"max_gpu_budget": null}', 422, /max_gpu_budget: .*got null/],
    ['{"max_gpu_budget": 1.5}', 422, /got 1.5/],
    ['{"decode_min_endpoint": 2}', 422, /not active in mode='agg': decode_min_endpoint/],
    ['{"min_gpu_budget": 24, "max_gpu_budget": 16}', 422, /min_gpu_budget 24 is above max_gpu_budget 16/],
    ['{"min_endpoint": 9}', 422, /requires 9 GPUs, exceeding max_gpu_budget=8/],
  ])('refuses %s with %s, and changes nothing', async (body, status, error) => {
    const { patch, url } = await served();
    const before = await (await fetch(url)).json();
    const [code, answer] = await patch(body);
    expect(code).toBe(status);
    expect(answer.error).toMatch(error);
    expect(await (await fetch(url)).json()).toEqual(before);
  });

  it('has nothing else, and nothing for pages in a browser that come by another name', async () => {
    const { url } = await served();
    expect((await fetch(url.replace('/v1/min-endpoints', '/'))).status).toBe(404);
    expect((await fetch(url, { method: 'DELETE' })).status).toBe(405);
    expect(await asHost(url, 'evil.example')).toBe(403);
  });
});

describe('the page of a planner', () => {
  const served = async (raw: Readonly<Record<string, unknown>> = {}) => {
    const bed = await bedOf({ live_dashboard_port: await freePort(), ...raw });
    const url = bed.urls.page ?? '';
    const view = async (): Promise<ConsolePlanner> =>
      (await (await fetch(`${url}/console/api?view=planner`)).json()) as ConsolePlanner;
    return { ...bed, url, view };
  };

  it('is that of the console, with its own files', async () => {
    const { url } = await served();
    const moved = await fetch(url, { redirect: 'manual' });
    expect([moved.status, moved.headers.get('location')]).toEqual([303, '/planner/']);
    const page = await fetch(`${url}/planner/`);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    const html = await page.text();
    for (const [, file] of html.matchAll(/(?:src|href)="(?!data:)([^"]+)"/g)) {
      expect((await fetch(`${url}/planner/${file}`)).status, file).toBe(200);
    }
    for (const path of ['/planner/main.tsx', '/console/', '/metrics', '/console/api/requests/1']) {
      expect((await fetch(`${url}${path}`)).status, path).toBe(404);
    }
    expect((await fetch(`${url}/console/api?view=fleet`)).status).toBe(400);
  });

  it('shows what its planner saw and decided, and nothing of other planners in its store', async () => {
    const { view, fleet, pass, store } = await served();
    const tick = { atMs: BEGIN_MS, reason: '', figures: {} };
    await store.commit('ns#other', { version: 0, state: 'next 0', tick }, new AbortController().signal);
    expect((await view()).why_none).toContain('waits for a worker or a frontend');
    void fleet.run();
    fleet.hear(heldAt(0, 0).signal);
    await pass(6000);
    const { groups, decisions, tick: latest } = await view();
    expect(groups).toMatchObject([{ model: 'm' }]);
    expect(decisions).toMatchObject([{ reason: expect.stringContaining('decode 0 -> 1') }]);
    expect(latest?.reason).toBeDefined();
  });

  it('sends what changes, until the reader leaves', async () => {
    const { url, fleet, pass } = await served();
    void fleet.run();
    fleet.hear(heldAt(0, 0).signal);
    await pass(100);
    const leaving = new AbortController();
    const headers = { accept: 'text/event-stream' };
    const response = await fetch(`${url}/console/api?view=planner`, { headers, signal: leaving.signal });
    expect(response.headers.get('x-accel-buffering')).toBe('no'); // nginx would hold events back
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    expect((await reader.read()).value).toMatch(/^event: planner\ndata: /);
    const next = reader.read();
    await pass(6000);
    expect((await next).value).toMatch(/^event: planned\ndata: /);
    leaving.abort();
  });

  it('ends the answer to HEAD, also for a reader of what changes', async () => {
    const { hostname, port } = new URL((await served()).url);
    const lines = ['/console/api?view=planner HTTP/1.1', `Host: ${hostname}`, 'Accept: text/event-stream', '', ''];
    const next = ['GET /nothing HTTP/1.1', `Host: ${hostname}`, 'Connection: close', '', ''];
    const socket = connect(Number(port), hostname, () =>
      socket.write(`HEAD ${lines.join('\r\n')}${next.join('\r\n')}`),
    );
    socket.setTimeout(20_000, () => socket.destroy(new Error('the answer to HEAD does not end')));
    const chunks: string[] = [];
    for await (const chunk of socket.setEncoding('utf8')) chunks.push(chunk);
    expect(chunks.join('').match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404']);
  });

  it('answers what its law would decide with other bounds', async () => {
    const { url, fleet, pass, scaled } = await served();
    void fleet.run();
    fleet.hear(heldAt(0, 0).signal);
    await pass(6000);
    const before = scaled.length;
    const ask = (body: string) => fetch(`${url}/console/api/what-if`, { method: 'POST', body });
    const answer = (await (await ask('{"min_endpoint": 3}')).json()) as ConsoleWhatIf;
    expect(answer).toMatchObject({ group: 'ns#m', changed: false, other: { targets: { decode: 3 } } });
    expect([(await ask('{"min_endpoint": "3"}')).status, (await ask('{')).status]).toEqual([400, 400]);
    expect((await ask(`{"group": "${'x'.repeat(5000)}"}`)).status).toBe(413);
    expect(scaled.slice(before)).not.toContain(3);
  });

  it('is for those who ask for this machine by its own name', async () => {
    const { urls } = await bedOf({ live_dashboard_port: await freePort() });
    const url = urls.page ?? '';
    for (const host of ['evil.example', 'evil.example:8080', '127.0.0.1.evil.example', '10.0.0.1', 'localhost.evil']) {
      expect([host, await asHost(url, host)]).toEqual([host, 403]);
    }
    for (const host of ['localhost', 'LOCALHOST:8080', '127.0.0.1', '127.0.0.1:1', '[::1]', '[::1]:8080']) {
      expect([host, await asHost(url, host)]).toEqual([host, 303]);
    }
  });

  it('is done without where its port is taken, and the planner goes on', async () => {
    const port = await freePort();
    await bedOf({ live_dashboard_port: port });
    const second = await bedOf({ live_dashboard_port: port });
    expect(second.urls).toEqual({});
    expect(second.lines).toMatchObject([{ level: 'error', message: expect.stringContaining(`port ${port}`) }]);
  });
});

describe('the report of a planner', () => {
  const pageOf = (raw: Readonly<Record<string, unknown>>, ticks: readonly LawTick[]): string => {
    const history = new PlannerHistory(() => 2);
    for (const tick of ticks) history.add(tick);
    const config = parsePlannerConfig({ mode: 'agg', ...raw });
    return renderPlannerPage({ group: 'ns#m', config, points: history.points, decisions: [] });
  };

  it.each([
    ['agg', ['Workers', 'Demand', 'Requests']],
    ['disagg', ['Workers: prefill', 'Workers: decode', 'Demand', 'Requests']],
    ['decode', ['Workers: decode', 'Demand', 'Requests']],
    ['prefill', ['Workers: prefill', 'Demand', 'Requests']],
  ])('names what each chart of mode %s shows, once', (mode, titles) => {
    const counts = { decode: { ready: 2, starting: 1 }, prefill: { ready: 1, starting: 0 } };
    const html = pageOf({ mode }, [tickOf(5, { counts }), tickOf(10, { counts })]);
    const shown = [...html.matchAll(/<text class="title"[^>]*>([^<]*)</g)].map(([, title]) => title ?? '');
    expect(shown).toEqual(expect.arrayContaining([...titles]));
    expect(shown.filter((title) => title.startsWith('Workers'))).toEqual(
      titles.filter((title) => title.startsWith('Workers')),
    );
    expect(new Set(shown).size).toBe(shown.length);
    for (const title of shown) expect(title.toLowerCase()).not.toMatch(/(\w+): \1/);
  });

  it.each([0, 0.37, 1, 3, 7.3, 11, 18, 99.99, 120, 1001, 123_456])(
    'has no value above the highest line of an axis, of %s running',
    (most) => {
      const ticks = [0, 5, 10].map((at) => tickOf(at, { running: most * (at / 10), ttftMs: most, held: most }));
      const html = pageOf({}, ticks);
      for (const [chart] of html.matchAll(/<svg[\s\S]*?<\/svg>/g)) {
        const title = />([^<]*)</.exec(chart)?.[1];
        const lines = [...chart.matchAll(/class="grid" x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="\2"/g)];
        const highest = Math.min(...lines.map(([, , y]) => Number(y)));
        const drawn = [...chart.matchAll(/[ML][\d.]+ ([\d.]+)/g)].map(([, y]) => Number(y));
        expect(lines.length, title).toBeGreaterThan(1);
        expect(drawn.length, title).toBeGreaterThan(0);
        expect(Math.min(...drawn), title).toBeGreaterThanOrEqual(highest);
      }
    },
  );

  it('counts in whole workers', () => {
    const html = pageOf({}, [tickOf(0, { counts: { decode: { ready: 1, starting: 0 } } })]);
    const [workers = ''] = /<svg(?:(?!<\/svg>)[\s\S])*>Workers<[\s\S]*?<\/svg>/.exec(html) ?? [];
    const labels = [...workers.matchAll(/text-anchor="end">([^<]*)</g)].map(([, label]) => label);
    expect(labels).toEqual(['0', '1', '2', '3']);
  });
});

describe('the reports of a planner', () => {
  it('are written as often as they are asked for, with their numbers beside them', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'planner-reports-'));
    closing.push(() => rm(folder, { recursive: true, force: true }));
    const { pages, clock, lines } = await bedOf({
      report_interval_hours: 1,
      report_output_dir: join(folder, 'reports'),
    });
    for (let minute = 0; minute <= 125; minute++) {
      pages.ticked(tickOf(60 * minute));
      await clock.advance(60_000);
      const due = Math.floor(minute / 60);
      await waitUntil(() => lines.length === due, { what: 'the report that is due' });
    }
    await pages.close();
    const names = (await readdir(join(folder, 'reports'))).toSorted();
    expect(names).toEqual([
      expect.stringMatching(/^planner_report_\d{8}_\d{6}_001\.html$/),
      expect.stringMatching(/^planner_report_\d{8}_\d{6}_001\.log\.jsonl\.gz$/),
      expect.stringMatching(/^planner_report_\d{8}_\d{6}_002\.html$/),
      expect.stringMatching(/^planner_report_\d{8}_\d{6}_002\.log\.jsonl\.gz$/),
    ]);
    const read = (name = '') => readFile(join(folder, 'reports', name));
    expect((await read(names[0])).toString()).toContain('no change: tick 3600');
    const rows = gunzipSync(await read(names[3]))
      .toString()
      .trimEnd()
      .split('\n');
    const [head, first] = rows.map((row) => JSON.parse(row) as Record<string, unknown>);
    expect(head).toMatchObject({ kind: 'metadata', ttft_ms: 500, num_snapshots: rows.length - 1 });
    expect(first?.timestamp_s).toBe(BEGIN_MS / 1000 + 3660); // what was in the first one is not in the second
    expect(first).toMatchObject({
      kind: 'snapshot',
      num_decode_replicas: 2,
      scale_to_decode: 3,
      observed_ttft_ms: 120,
    });
    expect(lines.map(({ message }) => message)).toEqual(['a report was written', 'a report was written']);
  });

  it('that cannot be written are reported, and the next one is tried', async () => {
    const { pages, clock, lines } = await bedOf({ report_interval_hours: 1, report_output_dir: '/dev/null/reports' });
    for (let minute = 0; minute <= 130; minute++) {
      pages.ticked(tickOf(60 * minute));
      await clock.advance(60_000);
      const due = Math.floor(minute / 60);
      await waitUntil(() => lines.length === due, { what: 'the report that is due' });
    }
    await pages.close();
    expect(lines.map(({ message }) => message)).toEqual(Array(2).fill('a report could not be written'));
  });
});

describe('the ticks of a planner over time', () => {
  it('stay bounded, keep their means, and never lose an hour', () => {
    const history = new PlannerHistory(() => 2);
    const ticks = 30_000;
    for (let at = 1; at <= ticks; at++) history.add(tickOf(5 * at, { running: at % 2 === 0 ? 0 : 8 }));
    const { points } = history;
    expect(points.length).toBeGreaterThan(1000);
    expect(points.length).toBeLessThanOrEqual(4096);
    expect(points.at(-1)?.atMs).toBe(BEGIN_MS + 5000 * ticks);
    expect(points.at(-1)?.figures.gpu_hours).toBeCloseTo((3 * 2 * 5 * ticks) / 3600, 6);
    expect(points[10]?.figures.running_requests).toBe(4);
    const times = points.map(({ atMs }) => atMs);
    expect(times).toEqual(times.toSorted((one, other) => one - other));
  });
});
