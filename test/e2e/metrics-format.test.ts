import { beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../support/free-port.ts';
import { useFleet, waitUntil } from '../support/index.ts';
import { lintMetrics } from '../support/lint-metrics.ts';

const fleet = useFleet({ DYN_DISCOVERY_BACKEND: 'file' });
const urls: Record<string, string> = {};

/** A line each is answered for, so that the families that come with a first request are there, too. */
async function chat(url: string): Promise<void> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'stator-mini', messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 }),
  });
  await response.text();
}

beforeAll(async () => {
  const port = await freePort();
  fleet.spawn(['router', '--service=indexer', '--service-host=127.0.0.1', `--service-port=${port}`], {
    DYN_FILE_KV: fleet.fileKv,
  });
  const [frontend, renamed, worker] = await Promise.all([
    fleet.frontend(['--router-mode=kv']),
    fleet.frontend(['--router-mode=kv', '--metrics-prefix=my-pre.fix']),
    fleet.worker(),
  ]);
  for (const each of [frontend, renamed]) {
    await fleet.untilWorkers(each, 1);
    await chat(each.url);
  }
  Object.assign(urls, {
    frontend: frontend.url,
    renamed: renamed.url,
    worker: worker.url,
    indexer: `http://127.0.0.1:${port}`,
  });
  await waitUntil(() =>
    fetch(`${urls.indexer}/metrics`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
});

describe('the page of metrics', () => {
  it.each(['frontend', 'worker', 'indexer'])('of a %s has no finding but Dynamo’s own names', async (name) => {
    const page = await (await fetch(`${urls[name]}/metrics`)).text();
    const findings = lintMetrics(page);
    expect(findings.filter((finding) => !finding.startsWith('dynamo_'))).toEqual([]);
    expect(page.split('\n').length).toBeGreaterThan(10);
  });
});

describe('--metrics-prefix', () => {
  it('moves every line of the frontend’s own, and no other', async () => {
    const [kept = [], moved = []] = await Promise.all(
      ['frontend', 'renamed'].map(async (name) => namesOn(await (await fetch(`${urls[name]}/metrics`)).text())),
    );
    expect(kept.filter((name) => name.startsWith('dynamo_frontend_')).length).toBeGreaterThan(40);
    expect(moved).toEqual(kept.map((name) => name.replace(/^dynamo_frontend_/, 'my_pre_fix_')).sort());
  });
});

/** Every name that a line of the page begins with, once. */
function namesOn(page: string): string[] {
  const names = page.split('\n').flatMap((line) => /^(?:# \w+ )?([a-zA-Z_:][\w:]*)/.exec(line)?.[1] ?? []);
  return [...new Set(names)].sort();
}

describe('the lint', () => {
  it.each([
    ['a 1', 'the last line is not ended'],
    [
      '# HELP a_total x\n# TYPE a_total gauge\na_total 1\n',
      'a_total non-counter metrics should not have "_total" suffix',
    ],
    ['# HELP a x\n# TYPE a counter\na 1\n', 'a counter metrics should have "_total" suffix'],
    ['# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n', 'a_ms metric names should not contain abbreviated units'],
    ['# TYPE a gauge\na 1\n', 'a no help text'],
    ['# HELP a x\n# TYPE a gauge\na{b="1"} 1\na{b="1"} 2\n', 'a{b="1"} is there twice'],
  ])('finds the fault of %j', (page, finding) => {
    expect(lintMetrics(page)).toContain(finding);
  });
});
