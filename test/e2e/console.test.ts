import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { CHROMIUM, useBrowser } from '../support/browser.ts';
import { openChat, readChat, runStator, type StatorProcess, useFleet, waitUntil } from '../support/index.ts';

const fleet = useFleet();
/** Text that would run if a page took it for markup. */
const HOSTILE = `<img src=x onerror="window.pwned='yes'">'"{{7*7}}`;
/** Longest time of a test that opens several pages, each of which a busy machine draws slowly. */
const PAGES_MS_MAX = 300_000;
const FILES = ['/console/', '/console/console.css', '/console/console.js'];

/** Text of the first element that a selector finds; empty without one. */
const textIn = (page: Page, selector: string): Promise<string> =>
  page
    .locator(selector)
    .first()
    .innerText({ timeout: 1000 })
    .catch(() => '');

const untilSeen = (page: Page, selector: string, part: string | RegExp): Promise<string> =>
  waitUntil(
    async () => {
      const text = await textIn(page, selector);
      return (typeof part === 'string' ? text.includes(part) : part.test(text)) ? text : undefined;
    },
    { what: `${part} in ${selector}` },
  );

describe.runIf(CHROMIUM !== '')('the console in a browser', () => {
  const open = useBrowser();
  let frontend: StatorProcess;
  let workers: readonly StatorProcess[];
  const at = (place: string): string => `${frontend.url}/console/#/${place}`;

  async function chat(model = 'built-in', headers: Readonly<Record<string, string>> = {}): Promise<string> {
    const response = await fetch(`${frontend.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model, max_tokens: 20, messages: [{ role: 'user', content: `${HOSTILE} secret words` }] }),
    });
    return ((await response.json()) as { readonly id: string }).id;
  }

  beforeAll(async () => {
    frontend = await fleet.frontend(['--router-mode=kv', '--console-requests=10000']);
    const args = ['--speedup-ratio=50', '--model-name=built-in'];
    workers = await Promise.all([fleet.worker(args), fleet.worker(args)]);
    await fleet.untilWorkers(frontend, 2, 'built-in');
  });

  it('shows the fleet live, over one request for the data', async () => {
    const { page, faults, requests } = await open(at('fleet'));
    for (const { instanceId } of workers) await untilSeen(page, '[aria-label="Tiles of workers"]', instanceId);
    await page.getByRole('link', { name: 'Table', exact: true }).click();
    for (const { instanceId } of workers) await untilSeen(page, '[aria-label="Table of workers"]', instanceId);
    expect(await textIn(page, '[aria-label="Table of models"]')).toMatch(/built-in\s+ready\s+2/);
    await chat();
    await untilSeen(page, '.figures', /TTFT\s+[\d.]+ m?s/);
    expect(requests).toEqual([...FILES, '/console/api?view=fleet']);
    expect(await page.locator('.chart canvas').count()).toBe(5);
    expect(faults).toEqual([]);
  });

  it.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 390],
  ] as const)(
    'has nothing for axe to find on any page: %s, %i pixels',
    async (colorScheme, width) => {
      const id = await chat();
      const worker = `workers/${workers[0]!.instanceId}`;
      for (const place of ['fleet', 'fleet?as=table', worker, 'requests', `requests/${id}`, 'try']) {
        const { page, faults, audit } = await open(at(place), { colorScheme, width });
        await page.locator('table, form, .facts').first().waitFor();
        expect(await audit(), place).toEqual([]);
        const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
        expect(overflow, `${place} is wider than the window`).toBeLessThanOrEqual(0);
        expect(faults).toEqual([]);
        await page.context().close();
      }
    },
    PAGES_MS_MAX,
  );

  it('lists requests as they come, and shows the stages and the routing decision of one', async () => {
    const { page, faults, requests } = await open(at('requests?model=built-in'));
    await page.locator('table.requests').waitFor();
    const id = await chat();
    await untilSeen(page, 'table.requests tbody tr', /200[\s\S]*built-in/);
    await page.goto(at(`requests/${id}`));
    await untilSeen(page, '.waterfall', /read[\s\S]*route[\s\S]*prefill[\s\S]*decode/);
    const decision = await textIn(page, 'main');
    expect(decision).toMatch(/Worker [0-9a-f]+ rank 0 was chosen/);
    expect(await page.locator('[aria-label="Table of candidates"] tbody tr').count()).toBe(2);
    expect(await page.locator('[aria-label="Table of candidates"] tr.chosen').count()).toBe(1);
    expect(decision).not.toContain('secret words');
    expect(requests).toEqual([...FILES, '/console/api?view=requests&model=built-in', `/console/api/requests/${id}`]);
    expect(faults).toEqual([]);
  });

  it('can be used by keyboard alone', async () => {
    await chat();
    const { page } = await open(at('fleet'));
    await page.locator('[aria-label="Tiles of workers"] li').first().waitFor();
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toContain('Skip');
    for (const name of ['Fleet', 'Requests']) {
      await page.keyboard.press('Tab');
      expect(await page.evaluate('document.activeElement.textContent')).toBe(name);
    }
    await page.keyboard.press('Enter');
    await page.locator('table.requests tbody a').first().focus();
    await page.keyboard.press('Enter');
    await page.locator('.waterfall').waitFor();
  });

  it('chats with a model, and shows the request as code', async () => {
    const { page, faults } = await open(at('try'));
    await page.getByLabel('Message').fill('What are you?');
    await page.getByRole('button', { name: 'Send' }).click();
    await untilSeen(page, '.answer', /^You are talking to a mock worker/);
    await untilSeen(page, '.turn', /first token after .* output tokens/);
    expect(await textIn(page, '.snippets pre')).toContain(`curl -N ${frontend.url}/v1/chat/completions`);
    await page.getByRole('button', { name: 'Python' }).click();
    expect(await textIn(page, '.snippets pre')).toContain(`base_url="${frontend.url}/v1"`);
    await page.getByRole('link', { name: 'Stages and routing decision' }).click();
    await untilSeen(page, '.waterfall', 'decode');
    expect(faults).toEqual([]);
  });

  it(
    'takes names from clients and workers as text',
    async () => {
      const named = await fleet.worker([`--model-name=${HOSTILE}`, '--speedup-ratio=50']);
      await fleet.untilWorkers(frontend, 1, HOSTILE);
      const id = await chat(HOSTILE, { 'x-request-id': '<script>window.pwned=1</script>' });
      for (const place of [
        'fleet',
        `fleet?model=${encodeURIComponent(HOSTILE)}`,
        'requests',
        `requests/${id}`,
        'try',
      ]) {
        const { page, faults } = await open(at(place));
        await waitUntil(async () =>
          (await page.locator('main').innerText()).includes(place === 'try' ? 'Model' : HOSTILE),
        );
        if (place === 'try') {
          await page.getByLabel('Message').fill(HOSTILE);
          await page.getByRole('button', { name: 'Send' }).click();
          await untilSeen(page, '.question', HOSTILE);
        }
        expect(await page.evaluate('window.pwned')).toBeUndefined();
        expect(await page.locator('main img, main script').count()).toBe(0);
        expect(faults).toEqual([]);
        await page.context().close();
      }
      await named.kill();
    },
    PAGES_MS_MAX,
  );

  it(
    'shows the prompt and the answer of a request as text, if a setting says so',
    async () => {
      const showing = await fleet.frontend(['--router-mode=kv', '--console-show-prompts', '--http-host=0.0.0.0']);
      expect(showing.stderr() + showing.stdout()).toContain('shows the prompts and answers of every client');
      expect(frontend.stderr() + frontend.stdout()).not.toContain('shows the prompts');
      await fleet.untilWorkers(showing, 2, 'built-in');
      const { port } = new URL(showing.url);
      const url = `http://127.0.0.1:${port}`;
      const messages = [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: `${HOSTILE} secret words ${'and so on '.repeat(2000)}` },
      ];
      const { text } = await readChat(url, { model: 'built-in', max_tokens: 20, messages });
      for (const [colorScheme, width] of [
        ['light', 1280],
        ['dark', 390],
      ] as const) {
        const { page, faults, audit } = await open(`${url}/console/#/requests/0`, { colorScheme, width });
        const shown = await untilSeen(page, '.texts', text);
        expect(shown).toContain(`${HOSTILE} secret words`);
        expect(shown).toContain('… cut here');
        expect(shown.length).toBeLessThan(10_000);
        expect(await page.evaluate('window.pwned')).toBeUndefined();
        expect(await page.locator('main img, main script').count()).toBe(0);
        expect(await audit()).toEqual([]);
        expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
        expect(faults).toEqual([]);
        await page.context().close();
      }
      await showing.kill();
    },
    PAGES_MS_MAX,
  );

  it('shows a worker that dies, and the move of its stream', async () => {
    const args = ['--model-name=moving', '--decode-speedup-ratio=0.1'];
    const both = await Promise.all([fleet.worker(args), fleet.worker(args)]);
    await fleet.untilWorkers(frontend, 2, 'moving');
    const { page, faults } = await open(at('fleet?model=moving'));
    await untilSeen(page, '[aria-label="Tiles of workers"]', both[0]!.instanceId);
    const messages = [{ role: 'user', content: 'Count.' }];
    const stream = await openChat(frontend.url, { model: 'moving', max_tokens: 200, messages });
    await stream.untilDeltas(3);
    const { requests } = (await (await fetch(`${frontend.url}/console/api?view=requests&model=moving`)).json()) as {
      readonly requests: readonly { readonly number: number; readonly worker: string }[];
    };
    const { number, worker } = requests[0]!;
    const [dying, other] = both[0]!.instanceId === worker ? both : [both[1]!, both[0]!];
    await dying!.kill();
    await waitUntil(async () => (await textIn(page, '.tile.gone')).includes(worker), { timeoutMs: 30_000 });
    await page.goto(at(`requests/${number}`));
    await untilSeen(page, '.waterfall', /decode[\s\S]*move/);
    expect(await textIn(page, '.waterfall')).toContain(other!.instanceId);
    expect(faults).toEqual([]);
    stream.leave();
    await other!.kill();
  });

  it('shows what a worker has cached once it is opened, and asks for it only then', async () => {
    await chat();
    const { page, faults, requests, audit } = await open(at('fleet?model=built-in'));
    const id = workers[0]!.instanceId;
    await page.getByRole('link', { name: id }).click();
    await untilSeen(page, '#cache ~ *', 'As the worker reports it');
    await untilSeen(page, 'main', /\d+ % *[\d,]* of [\d,]+ cached on the device|\d+ %[\s\S]*cached on the device/);
    expect(requests).toEqual([...FILES, '/console/api?view=fleet&model=built-in', `/console/api/workers/${id}`]);
    expect(await audit()).toEqual([]);
    await page.goto(at('workers/abc'));
    await untilSeen(page, '[role=alert]', 'No worker');
    expect(faults.filter((fault) => !fault.includes('404'))).toEqual([]);
  });

  it('lists the other frontends with their requests, if routers tell each other', async () => {
    const flags = ['--router-mode=kv', '--router-replica-sync', '--namespace=joined'];
    const args = ['--model-name=joined', '--namespace=joined', '--decode-speedup-ratio=0.1'];
    const [one, other] = await Promise.all([fleet.frontend(flags), fleet.frontend(flags), fleet.worker(args)]);
    await Promise.all([one, other].map((each) => fleet.untilWorkers(each, 1, 'joined')));
    const { page, faults } = await open(`${one.url}/console/#/fleet`);
    await untilSeen(page, 'main', /This page shows the frontend on \S+, process \d+/);
    const messages = [{ role: 'user', content: 'Count.' }];
    const stream = await openChat(other.url, { model: 'joined', max_tokens: 2000, messages });
    await stream.untilDeltas(1);
    await untilSeen(page, '[aria-label="Table of frontends"]', /this one\s+0[\s\S]*\s1\s+only at its own console/);
    await untilSeen(page, 'main', 'workers report 1 requests');
    expect(faults).toEqual([]);
    stream.leave();
    await Promise.all([one.kill(), other.kill()]);
  });

  it('drains a worker by a button, after a second press', async () => {
    const args = ['--model-name=drained', '--speedup-ratio=50'];
    const [worker] = await Promise.all([fleet.worker(args), fleet.worker(args)]);
    await fleet.untilWorkers(frontend, 2, 'drained');
    const { page, faults } = await open(at('fleet?model=drained&as=table'));
    const id = worker!.instanceId;
    await page.getByRole('button', { name: `Drain worker ${id}`, exact: true }).click();
    await page.getByRole('button', { name: `Drain worker ${id} now` }).click();
    expect(await worker!.exited).toBe(0);
    await untilSeen(page, '[aria-label="Table of models"] tr.chosen', /ready\s+1\s/);
    expect(faults).toEqual([]);
  });

  it('draws only the rows in sight of 10,000 requests', async () => {
    const send = async (count: number): Promise<void> => {
      const headers = { 'content-type': 'application/json' };
      for (let at = 0; at < count; at++) {
        const body = '{"model": "none", "messages": [{"role": "user", "content": "x"}]}';
        await (await fetch(`${frontend.url}/v1/chat/completions`, { method: 'POST', headers, body })).text();
      }
    };
    await Promise.all(Array.from({ length: 20 }, () => send(510)));
    const { page, faults } = await open(at('requests'));
    const rows = page.locator('table.requests');
    await rows.waitFor();
    await waitUntil(
      async () => {
        await page.evaluate('{ const box = document.querySelector(".tall"); box.scrollTop = box.scrollHeight; }');
        return (await rows.getAttribute('aria-rowcount')) === '10001';
      },
      { timeoutMs: 150_000, what: 'all requests in the list' },
    );
    expect(await page.locator('table.requests tbody tr').count()).toBeLessThan(80);
    expect(faults).toEqual([]);
  }, 400_000);
});

describe.runIf(CHROMIUM !== '')('the console for others', () => {
  const open = useBrowser();
  const ADMIN = 'an-admin-key-of-thirty-two-or-more-characters';

  it('asks for the key of an operator, and shows names of API keys as text', async () => {
    const keysFile = join(fleet.temporary, 'keys.json');
    const created = await runStator(['keys', 'create', '--keys-file', keysFile, '--name', HOSTILE]);
    const [key = ''] = /sk-\S+/.exec(created.stdout) ?? [];
    const local = await fleet.local(['--speedup-ratio=50', `--keys-file=${keysFile}`], { STATOR_ADMIN_KEY: ADMIN });
    expect(local.stdout()).toContain(`${local.url}/console\n`);
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const { data } = (await (await fetch(`${local.url}/v1/models`, { headers })).json()) as {
      readonly data: readonly { readonly id: string }[];
    };
    const body = JSON.stringify({ model: data[0]?.id, max_tokens: 2, messages: [{ role: 'user', content: 'x' }] });
    await (await fetch(`${local.url}/v1/chat/completions`, { method: 'POST', headers, body })).text();
    const { page, audit } = await open(`${local.url}/console/#/requests`, {
      headers: { 'x-forwarded-for': '203.0.113.7' },
    });
    await untilSeen(page, 'form.key-form', 'A key is needed');
    expect(await audit()).toEqual([]);
    await page.getByLabel(/Admin key/).fill(ADMIN);
    await page.getByRole('button', { name: 'Open the console' }).click();
    await untilSeen(page, 'table.requests tbody tr', HOSTILE);
    await page.getByRole('link', { name: 'Keys' }).click();
    await page.getByLabel('Name').fill('a team');
    await page.getByRole('button', { name: 'Create' }).click();
    const made = await untilSeen(page, '.issued', /sk-stator-\S+/);
    await untilSeen(page, '[aria-label="Table of keys"] tbody tr', /a team\s+valid/);
    const row = page.locator('[aria-label="Table of keys"] tbody tr', { hasText: 'a team' });
    await page
      .getByRole('button', { name: /^Limits of key/ })
      .first()
      .click();
    const limits = page.getByRole('form', { name: /^Limits of key/ });
    await limits.getByLabel('Tokens a day').fill('5000');
    expect(await audit()).toEqual([]);
    await limits.getByRole('button', { name: 'Save' }).click();
    await waitUntil(async () => (await row.innerText()).includes('5000 of 5000'));
    expect(await page.locator('.issued').innerText()).toBe(made); // it cannot be shown again
    const mine = { authorization: `Bearer ${/sk-stator-\S+/.exec(made)?.[0]}`, 'content-type': 'application/json' };
    await (await fetch(`${local.url}/v1/chat/completions`, { method: 'POST', headers: mine, body })).text();
    await waitUntil(async () => {
      await page.getByRole('button', { name: 'Refresh' }).click();
      return /\s1\s+\d+\s[\s\S]*49\d\d of 5000/.test(await row.innerText());
    });
    expect(await audit()).toEqual([]);
    await page.setViewportSize({ width: 390, height: 900 });
    await page.emulateMedia({ colorScheme: 'dark' });
    await page
      .getByRole('button', { name: /^Limits of key/ })
      .first()
      .click();
    expect(await audit()).toEqual([]);
    expect(await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    const models = await fetch(`${local.url}/v1/models`, {
      headers: { authorization: `Bearer ${/sk-stator-\S+/.exec(made)?.[0]}` },
    });
    expect(models.status).toBe(200);
    await row.getByRole('button', { name: /^Revoke key/ }).click();
    await row.getByRole('button', { name: /^Revoke key .* now$/ }).click();
    await waitUntil(async () => (await page.locator('.issued').count()) === 0);
    expect(await page.evaluate('window.pwned')).toBeUndefined();
    await local.kill();
  });
});
