import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { HubProgress } from '../../../../shared/artifacts/hub/fetch-model.ts';
import { type HubBed, openHubBed, treeOf } from '../../../support/hub/hub-bed.ts';
import { COMMIT, gitSum, type HubFaultPlayed, sha256 } from '../../../support/hub/hub-server.ts';

const TOKENIZER = Buffer.alloc(300_000, 'tokenizer ');
const CONFIG = Buffer.from('{"model_type":"qwen3"}');
const FILES = {
  'config.json': CONFIG,
  'generation_config.json': Buffer.from('{}'),
  'tokenizer.json': TOKENIZER,
  'tokenizer_config.json': Buffer.from('{"eos_token":"</s>"}'),
  'chat_template.jinja': Buffer.from('{{ messages }}'),
  'model.safetensors': Buffer.alloc(1000, 1),
  'README.md': Buffer.from('# read me'),
  'original/tokenizer.json': Buffer.from('{}'),
};
const SERVING = [
  'chat_template.jinja',
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
];
const LARGE = ['tokenizer.json', 'model.safetensors'];
const NAME = 'org/name';

/** Recorded cache of Hugging Face's own tool, and the model that it was asked for. */
interface Golden {
  readonly commit: string;
  readonly files: Readonly<Record<string, string>>;
  readonly large: readonly string[];
  readonly revisions: readonly string[];
  readonly cache: Readonly<Record<string, string>>;
}

let bed: HubBed;
beforeEach(async () => {
  bed = await openHubBed();
  bed.hub.models.set(NAME, { files: FILES, large: LARGE });
});
afterEach(() => bed.close());

const cacheOf = (): string => join(bed.home, 'hub', 'models--org--name');
const askedPaths = (): readonly string[] => bed.hub.asked.map(({ path }) => path);

/** Puts a model into the cache as an older tool does, which keeps no list of the files. */
function putSnapshot(files: Readonly<Record<string, Buffer>>, commit = COMMIT): string {
  for (const [name, content] of Object.entries(files)) {
    const blob = join(cacheOf(), 'blobs', gitSum(content));
    const path = join(cacheOf(), 'snapshots', commit, name);
    for (const each of [blob, path]) mkdirSync(dirname(each), { recursive: true });
    writeFileSync(blob, content);
    symlinkSync(`../../blobs/${gitSum(content)}`, path);
  }
  mkdirSync(join(cacheOf(), 'refs'), { recursive: true });
  writeFileSync(join(cacheOf(), 'refs', 'main'), commit);
  return join(cacheOf(), 'snapshots', commit);
}

describe('a model on the hub', () => {
  it('is downloaded without weights into the cache that other tools share', async () => {
    const folder = await bed.fetch(NAME);
    expect(folder).toBe(join(cacheOf(), 'snapshots', COMMIT));
    for (const name of SERVING) expect(readFileSync(join(folder, name))).toEqual(FILES[name as keyof typeof FILES]);
    const links = SERVING.map((name) => {
      const content = FILES[name as keyof typeof FILES];
      return [
        `snapshots/${COMMIT}/${name}`,
        `-> ../../blobs/${LARGE.includes(name) ? sha256(content) : gitSum(content)}`,
      ];
    });
    const { [`trees/${COMMIT}.json`]: list, ...tree } = treeOf(cacheOf());
    expect(
      Object.entries(tree)
        .filter(([path]) => path.startsWith('snapshots/'))
        .sort(),
    ).toEqual(links.sort());
    expect(tree['refs/main']).toBe(COMMIT);
    expect(Object.keys(tree).filter((path) => path.startsWith('blobs/'))).toHaveLength(SERVING.length);
    expect(Object.keys(JSON.parse(list ?? '').files).sort()).toEqual(Object.keys(FILES).sort());
  });

  it('is used from then on without asking the hub', async () => {
    const folder = await bed.fetch(NAME);
    bed.hub.asked.length = 0;
    expect(await bed.fetch(NAME)).toBe(folder);
    expect(await bed.fetch(NAME, { hfHubOffline: true, hfEndpoint: 'http://127.0.0.1:1' })).toBe(folder);
    expect(await bed.fetch(`hf://${NAME}@${COMMIT}`)).toBe(folder);
    expect(bed.hub.asked).toEqual([]);
  });

  it('is fetched once for all that ask at the same time', async () => {
    const folders = await Promise.all([1, 2, 3, 4].map(() => bed.fetch(NAME)));
    expect(new Set(folders).size).toBe(1);
    expect(askedPaths().filter((path) => path.startsWith('cdn:'))).toHaveLength(1);
    expect(askedPaths().filter((path) => path.startsWith('/api/models/'))).toHaveLength(1);
  });

  it('has the files of the branch, tag or commit after @', async () => {
    const commit = 'a'.repeat(40);
    const files = { ...FILES, 'config.json': Buffer.from('{"model_type":"other"}') };
    bed.hub.models.set(NAME, { files, large: LARGE, commit, revisions: ['main', 'refs/pr/7', 'v1.0'] });
    for (const revision of ['refs/pr/7', 'v1.0', commit]) {
      const folder = await bed.fetch(`${NAME}@${revision}`);
      expect(readFileSync(join(folder, 'config.json'), 'utf8')).toContain('other');
    }
    expect(Object.keys(treeOf(join(cacheOf(), 'refs'))).sort()).toEqual(['refs/pr/7', 'v1.0']);
  });

  it('takes only what is new in another commit', async () => {
    await bed.fetch(NAME);
    bed.hub.asked.length = 0;
    const files = { ...FILES, 'config.json': Buffer.from('{"model_type":"newer"}') };
    bed.hub.models.set(NAME, { files, large: LARGE, commit: 'b'.repeat(40), revisions: ['v2'] });
    await bed.fetch(`${NAME}@v2`);
    expect(askedPaths().filter((path) => path.includes('/resolve/'))).toEqual([
      `/${NAME}/resolve/${'b'.repeat(40)}/config.json`,
    ]);
  });

  it('tells its progress up to the last byte', async () => {
    const told: HubProgress[] = [];
    await bed.fetch(NAME, {}, { onProgress: (progress) => told.push(progress) });
    const bytesOfAll = SERVING.reduce((sum, name) => sum + FILES[name as keyof typeof FILES].length, 0);
    expect(told[0]).toEqual({ files: SERVING.length, bytes: 0, bytesOfAll });
    expect(told.at(-1)).toEqual({ files: SERVING.length, bytes: bytesOfAll, bytesOfAll });
    expect(told.map(({ bytes }) => bytes)).toEqual(
      told.map(({ bytes }) => bytes).toSorted((one, other) => one - other),
    );
  });

  it('is not searched for a tokenizer in its folders', async () => {
    bed.hub.models.set(NAME, { files: { 'config.json': CONFIG, 'assets/x.tiktoken': TOKENIZER } });
    const folder = await bed.fetch(NAME);
    expect(Object.keys(treeOf(folder))).toEqual(['config.json']);
  });

  it.each(['tokenizer./../../../../../outside', '../../../../outside.tiktoken', 'tokenizer.\\..\\outside'])(
    'writes nothing outside its folder if the hub lists %s',
    async (hostile) => {
      bed.hub.models.set(NAME, { files: { 'config.json': CONFIG, [hostile]: TOKENIZER } });
      const folder = await bed.fetch(NAME);
      expect(Object.keys(treeOf(folder))).toEqual(['config.json']);
      expect(Object.values(treeOf(bed.home))).not.toContain(TOKENIZER.toString());
      expect(readdirSync(bed.home)).toEqual(['hub']);
    },
  );

  it('may have no template, tokenizer or configuration', async () => {
    bed.hub.models.set(NAME, { files: { 'tokenizer.json': TOKENIZER } });
    const folder = await bed.fetch(NAME);
    expect(Object.keys(treeOf(folder))).toEqual(['tokenizer.json']);
    bed.hub.asked.length = 0;
    expect(await bed.fetch(NAME)).toBe(folder);
    expect(bed.hub.asked).toEqual([]);
  });
});

describe('the cache', () => {
  const { commit, files, large, revisions, cache } = JSON.parse(
    readFileSync(new URL('../../../fixtures/hub/python-cache.json', import.meta.url), 'utf8'),
  ) as Golden;
  const withoutSpaces = (tree: Readonly<Record<string, string>>) => {
    const lists = Object.entries(tree).filter(([path]) => path.startsWith('trees/'));
    return { ...tree, ...Object.fromEntries(lists.map(([path, text]) => [path, JSON.stringify(JSON.parse(text))])) };
  };

  it("is the one that Hugging Face's own tool leaves", async () => {
    const contents = Object.fromEntries(Object.entries(files).map(([name, text]) => [name, Buffer.from(text)]));
    bed.hub.models.set(NAME, { files: contents, large, commit, revisions });
    for (const revision of revisions) await bed.fetch(`${NAME}@${revision}`);
    expect(withoutSpaces(treeOf(cacheOf()))).toEqual(withoutSpaces(cache));
  });
});

describe('a snapshot that another tool has put into the cache', () => {
  const { 'model.safetensors': _, 'chat_template.jinja': template, ...plain } = FILES;

  it('is used as it is if it has a template', async () => {
    const folder = putSnapshot({ ...plain, 'chat_template.jinja': template });
    expect(await bed.fetch(NAME)).toBe(folder);
    rmSync(join(folder, 'chat_template.jinja'));
    writeFileSync(join(folder, 'tokenizer_config.json'), '{"chat_template":"x"}');
    expect(await bed.fetch(NAME)).toBe(folder);
    expect(bed.hub.asked).toEqual([]);
  });

  it('gets the template that it lacks, and is then whole', async () => {
    const folder = putSnapshot(plain);
    expect(await bed.fetch(NAME)).toBe(folder);
    expect(readFileSync(join(folder, 'chat_template.jinja'))).toEqual(template);
    expect(askedPaths().filter((path) => path.includes('/resolve/'))).toHaveLength(2); // and the large tokenizer
  });

  it.each<[string, Parameters<HubBed['fetch']>[1]]>([
    ['nothing may be downloaded', { hfHubOffline: true }],
    ['the hub cannot be reached', { hfEndpoint: 'http://127.0.0.1:1' }],
    ['the hub knows no such model', undefined],
  ])('is used without a template if %s', async (_, changed) => {
    const folder = putSnapshot(plain);
    if (changed === undefined) bed.hub.models.clear();
    const doubts: string[] = [];
    expect(await bed.fetch(NAME, changed, { onDoubt: (reason) => doubts.push(reason) })).toBe(folder);
    expect(doubts).toHaveLength(changed?.hfHubOffline === true ? 0 : 1);
  });

  it('gets a new link if the content behind one was removed', async () => {
    const folder = await bed.fetch(NAME);
    rmSync(join(cacheOf(), 'blobs', gitSum(CONFIG)));
    expect(await bed.fetch(NAME)).toBe(folder);
    expect(readFileSync(join(folder, 'config.json'))).toEqual(CONFIG);
  });
});

describe('the token', () => {
  const tokens = (): readonly unknown[] => [...new Set(bed.hub.asked.map(({ token }) => token))];

  it('goes to the hub, and not to the address to which the hub redirects', async () => {
    bed.hub.models.set(NAME, { files: FILES, large: LARGE, access: 'gated' });
    await bed.fetch(NAME, { hfToken: bed.hub.token });
    for (const { path, token } of bed.hub.asked) {
      expect([path, token]).toEqual([path, path.startsWith('cdn:') ? undefined : bed.hub.token]);
    }
    expect(askedPaths().some((path) => path.startsWith('cdn:'))).toBe(true);
  });

  it('is that of the file that a login has left, unless the environment has one', async () => {
    writeFileSync(join(bed.home, 'token'), `${bed.hub.token}\n`);
    await bed.fetch(NAME);
    expect(tokens()).toContain(bed.hub.token);
    bed.hub.asked.length = 0;
    await expect(bed.fetch(`${NAME}@other`, { hfToken: 'hf_other' })).rejects.toThrow('rejects the token');
    expect(tokens()).toEqual(['hf_other']);
  });

  it('does not cross a network without TLS', async () => {
    const hfEndpoint = bed.hub.url.replace('127.0.0.1', '0.0.0.0');
    await bed.fetch(NAME, { hfEndpoint, hfToken: bed.hub.token });
    expect(tokens()).toEqual([undefined]);
    bed.hub.models.set('org/gated', { files: FILES, access: 'gated' });
    await expect(bed.fetch('org/gated', { hfEndpoint, hfToken: bed.hub.token })).rejects.toThrow(
      `use HTTPS: the token is not sent to ${hfEndpoint}`,
    );
  });
});

describe('a model that cannot be downloaded', () => {
  beforeEach(() => {
    bed.hub.models.set('org/gated', { files: FILES, access: 'gated' });
    bed.hub.models.set('org/private', { files: FILES, access: 'private' });
  });

  it.each<[string, string, Parameters<HubBed['fetch']>[1], string]>([
    [
      'is gated',
      'org/gated',
      {},
      'org/gated is gated: accept its terms at {hub}/org/gated, and set HF_TOKEN to a token of that account',
    ],
    [
      'does not exist',
      'org/absent',
      {},
      '{hub} has no model org/absent for this user: check its name; if it is private, set HF_TOKEN to a token that may read it',
    ],
    ['is private', 'org/private', {}, '{hub} has no model org/private for this user'],
    [
      'does not exist for the token',
      'org/absent',
      { hfToken: 'hf_secret' },
      '{hub} has no model org/absent for this user: check its name; if it is private, set HF_TOKEN to another token that may read it',
    ],
    [
      'is asked for with a wrong token',
      NAME,
      { hfToken: 'hf_wrong' },
      '{hub} rejects the token: Invalid credentials in Authorization header: set HF_TOKEN to a valid one, or log in (hf auth login)',
    ],
    ['has no such revision', `${NAME}@v9`, {}, '{hub} has no revision v9 of org/name: check the part after @'],
    [
      'is not there offline',
      NAME,
      { hfHubOffline: true },
      'org/name is not in {cache}, and HF_HUB_OFFLINE forbids to download it: download it where the hub can be reached (hf download org/name)',
    ],
    [
      'is at an address where there is nothing',
      NAME,
      { hfEndpoint: 'http://127.0.0.1:1/' },
      'http://127.0.0.1:1 cannot be reached: ',
    ],
  ])('says what to do if it %s', async (_, name, changed, message) => {
    const expected = message.replaceAll('{hub}', bed.hub.url).replace('{cache}', join(bed.home, 'hub'));
    await expect(bed.fetch(name, changed)).rejects.toThrow(expected);
    expect(existsSync(join(bed.home, 'hub', `models--${name.replace('/', '--')}`, 'snapshots'))).toBe(false);
  });

  it.each([503, 500, 429])('is tried again a few times if the hub answers %s', async (status) => {
    const busy: HubFaultPlayed = { kind: 'status', status };
    bed.hub.listFaults.push(busy, busy, busy);
    await bed.fetch(NAME);
    expect(bed.clock.slept.slice(0, 3)).toEqual([500, 1000, 2000]);
    rmSync(bed.home, { recursive: true });
    bed.hub.listFaults.push(busy, busy, busy, busy);
    await expect(bed.fetch(NAME)).rejects.toThrow(`${bed.hub.url} answered ${status}: played`);
    await expect(bed.fetch(NAME)).resolves.toContain('snapshots');
  });

  it('waits as long as the hub asks, within bounds', async () => {
    const wait = (seconds: string): HubFaultPlayed => ({
      kind: 'status',
      status: 429,
      headers: { 'retry-after': seconds },
    });
    bed.hub.listFaults.push(wait('7'), wait('86400'), wait('soon'));
    await bed.fetch(NAME);
    expect(bed.clock.slept.slice(0, 3)).toEqual([7000, 30_000, 2000]);
  });

  it('is refused if the hub does not name the checksums of its files', async () => {
    bed.hub.models.set(NAME, { files: FILES, isWithoutSums: true });
    await expect(bed.fetch(NAME)).rejects.toThrow(
      'the hub names no checksum of config.json: download it with hf download',
    );
  });

  it('is refused at a server that is no hub', async () => {
    bed.hub.listFaults.push({ kind: 'text', text: '<html>' });
    await expect(bed.fetch(NAME)).rejects.toThrow(
      `${bed.hub.url} does not answer as a hub of models when asked for org/name`,
    );
  });

  it('says where the cache is if that cannot be written', async () => {
    const file = join(bed.home, 'file');
    writeFileSync(file, '');
    await expect(bed.fetch(NAME, { hfHubCache: file })).rejects.toThrow(
      new RegExp(`^${file} cannot be written: .*: name another folder with HF_HOME or HF_HUB_CACHE$`),
    );
  });

  it('is given up when the caller gives up', async () => {
    const ending = new AbortController();
    bed.hub.faults.push({ kind: 'silent', bytes: 3 });
    bed.hub.onSilent = () => ending.abort(new Error('stopped'));
    await expect(bed.fetch(NAME, {}, { signal: ending.signal })).rejects.toThrow('stopped');
    expect(await bed.fetch(NAME)).toContain('snapshots');
  });
});
