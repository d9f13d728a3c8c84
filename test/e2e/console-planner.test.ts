import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ConsolePlanner } from '../../shared/console/planner/wire.ts';
import { CHROMIUM, useBrowser } from '../support/browser.ts';
import { freePort, type SpawnedProcess, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const fleet = useFleet();
/** Name of the model, which would run if a page took it for markup. */
const HOSTILE = `<img src=x onerror="window.pwned='yes'">'"{{7*7}}`;
const FILES = ['', 'console.css', 'console.js'];
const VIEW = '/console/api?view=planner';
const QUICK = {
  ...{ rate_requests_per_second: 2, rate_window_seconds: 5, rate_surge_worth: 0, start_seconds: 1 },
  ...{ load_adjustment_interval_seconds: 1, max_gpu_budget: 2, control_api_port: 0, report_interval_hours: null },
};
/** Longest time of a test that opens several pages, each of which a busy machine draws slowly. */
const PAGES_MS_MAX = 300_000;

const untilSeen = (page: Page, selector: string, part: string | RegExp): Promise<string> =>
  waitUntil(
    async () => {
      const text = await page
        .locator(selector)
        .first()
        .innerText({ timeout: 1000 })
        .catch(() => '');
      return (typeof part === 'string' ? text.includes(part) : part.test(text)) ? text : undefined;
    },
    { what: `${part} in ${selector}`, timeoutMs: 60_000 },
  );

describe.runIf(CHROMIUM !== '')('the Planner page of the console', () => {
  const open = useBrowser();
  const folder = join(fleet.temporary, 'plans');
  let frontend: StatorProcess;
  let planner: SpawnedProcess;
  let ownPage: string;
  const at = (query = ''): string => `${frontend.url}/console/#/planner${query}`;
  const decisions = '[aria-label="Table of decisions"]';

  beforeAll(async () => {
    frontend = await fleet.frontend([`--planner-dir=${folder}`, '--hold-timeout=60']);
    const config = JSON.stringify({ ...QUICK, live_dashboard_port: await freePort() });
    const args = ['--planner-connector=local', `--planner-config=${config}`, `--planner-dir=${folder}`];
    const workers = ['--engine=mocker', '--speedup-ratio=0.3', `--model-name=${HOSTILE}`];
    const env = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: fleet.fileKv, STATOR_EVENT_ROLLUP_INTERVAL_MS: '500' };
    planner = fleet.spawn(['planner', ...args, '--', ...workers], { ...env, DYN_EVENT_PLANE_HOST: '127.0.0.1' });
    [, ownPage = ''] = await planner.waitForOutput(/planning .*page=(\S+)/, 60_000);
    await fleet.untilWorkers(frontend, 1, HOSTILE);
  }, 120_000);
  afterAll(() => planner?.kill());

  const chat = async (): Promise<void> => {
    const messages = [{ role: 'user', content: 'What are you?' }];
    const body = JSON.stringify({ model: HOSTILE, max_tokens: 8, messages });
    const headers = { 'content-type': 'application/json' };
    await (await fetch(`${frontend.url}/v1/chat/completions`, { method: 'POST', headers, body })).text();
  };

  it(
    'shows a decision as it is made, and what becomes of it, over one request for the data',
    async () => {
      const { page, faults, requests } = await open(at());
      await page.locator('.charts canvas').first().waitFor();
      const pressing = new AbortController();
      const press = async (): Promise<void> => {
        while (!pressing.signal.aborted) await chat();
      };
      const pressed = Array.from({ length: 6 }, press);
      await untilSeen(page, decisions, /1 → 2\s+reached\s+decode 1 -> 2: .*requests\/s/);
      pressing.abort();
      await Promise.all(pressed);
      await untilSeen(page, '[aria-label="Table of workers by option and phase"]', /decode\s+2/);
      await untilSeen(page, '.latest', HOSTILE);
      expect(await page.locator('.charts canvas').count()).toBe(5);
      expect(requests).toEqual([...FILES.map((file) => `/console/${file}`), VIEW]);
      expect(await page.evaluate('window.pwned')).toBeUndefined();
      expect(await page.locator('main img, main script').count()).toBe(0);
      expect(faults).toEqual([]);
    },
    PAGES_MS_MAX,
  );

  it('opens a decision by keyboard: its sentence, its inputs and its outcome', async () => {
    const { page, faults, requests } = await open(at());
    await page.locator(`${decisions} tbody a`).first().focus();
    await page.keyboard.press('Enter');
    const opened = await untilSeen(page, '.opened', 'Inputs');
    expect(opened).toMatch(/Decision #\d+: \d → \d/);
    expect(opened).toMatch(/decode need\s+\d/);
    expect(opened).toContain('fleet: decode: ');
    await page.getByRole('link', { name: 'Close' }).click();
    await page.locator('.opened').waitFor({ state: 'detached' });
    await page.goto(at('?decision=4711'));
    await untilSeen(page, '.opened', 'not among the last ones');
    expect(requests).toEqual([...FILES.map((file) => `/console/${file}`), VIEW]);
    expect(faults).toEqual([]);
  });

  it('asks the law with other bounds, which changes nothing', async () => {
    const { page, requests } = await open(at());
    await page.getByLabel('Fewest workers').fill('3');
    await page.getByLabel('Most GPUs').fill('5');
    await page.getByRole('button', { name: 'Ask' }).click();
    await untilSeen(page, '[aria-label="Answers of the law"]', /with your bounds\s+decode\s+\d\s+[345]\s/);
    await untilSeen(page, 'main', 'Nothing was changed.');
    await page.getByLabel('Most GPUs').fill('2');
    await page.getByRole('button', { name: 'Ask' }).click();
    await page.getByText('exceeding max_gpu_budget=2').waitFor();
    expect(requests.slice(-2)).toEqual(['/console/api/what-if', '/console/api/what-if']);
    const { decisions: made } = (await (await fetch(`${frontend.url}${VIEW}`)).json()) as {
      readonly decisions: readonly { readonly targets: { readonly decode: number } }[];
    };
    for (const { targets } of made) expect(targets.decode).toBeLessThanOrEqual(2);
  });

  it.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 390],
  ] as const)(
    'has nothing for axe to find: %s, %i pixels',
    async (colorScheme, width) => {
      const { page, faults, audit } = await open(at('?decision=0'), { colorScheme, width });
      await page.locator('.opened').waitFor();
      await page.getByRole('button', { name: 'Ask' }).click();
      await untilSeen(page, 'main', 'Nothing was changed.');
      expect(await audit()).toEqual([]);
      const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
      expect(overflow).toBeLessThanOrEqual(0);
      expect(faults).toEqual([]);
    },
    PAGES_MS_MAX,
  );

  it('is also served by the planner itself, without the other pages', async () => {
    const { page, faults, requests, audit } = await open(`${ownPage}/planner/`);
    await untilSeen(page, decisions, /1 → 2/);
    expect(await page.locator('nav a').allInnerTexts()).toEqual(['Planner']);
    await page.getByLabel('Fewest workers').fill('2');
    await page.getByRole('button', { name: 'Ask' }).click();
    await untilSeen(page, 'main', 'Nothing was changed.');
    expect(requests).toEqual([...FILES.map((file) => `/planner/${file}`), VIEW, '/console/api/what-if']);
    expect(await audit()).toEqual([]);
    expect(faults).toEqual([]);
  });

  it('says how to start a planner if there is none', async () => {
    const other = await fleet.frontend([`--planner-dir=${join(fleet.temporary, 'empty')}`]);
    const { page } = await open(`${other.url}/console/#/planner`);
    await untilSeen(
      page,
      'main',
      /No planner has decided anything here\. Start one with .*stator planner.*--planner-dir=/,
    );
    await other.kill();
  });

  it('shows the planner that runs beside stator local, or how to start one', async () => {
    const viewOf = async (url: string): Promise<ConsolePlanner> =>
      (await (await fetch(`${url}${VIEW}`)).json()) as ConsolePlanner;
    const planned = await fleet.local(['--planner', '--speedup-ratio=50', `--planner-config=${JSON.stringify(QUICK)}`]);
    const shown = await waitUntil(async () => {
      const view = await viewOf(planned.url);
      return view.config === null ? undefined : view;
    });
    expect(shown.groups).toMatchObject([{ namespace: 'local', model: 'stator-mini' }]);
    expect(shown.config?.bounds.rate_requests_per_second).toBe(2);
    await planned.kill();
    const plain = await fleet.local(['--speedup-ratio=50']);
    expect((await viewOf(plain.url)).why_none).toContain('`stator local --planner`');
    await plain.kill();
  });
});
