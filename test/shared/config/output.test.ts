import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { describeSettings } from '../../../shared/config/describe.ts';
import {
  forwardSettings,
  renderBriefHelp,
  renderConfigurationDocs,
  renderHelp,
  renderSettings,
  renderSettingsJson,
  resolveConfig,
  TABLE,
} from '../../../shared/config/index.ts';
import { REFUSED_NAMES, UNBUILT } from '../../../shared/config/unbuilt.ts';

const SECRET = 'a-secret-of-at-least-32-characters!!';
const ENV = { STATOR_PLANE_TOKEN: SECRET, NATS_SERVER: `nats://user:${SECRET}@host:4222`, NATS_AUTH_TOKEN: SECRET };

function frontend(...argv: readonly string[]) {
  return resolveConfig('frontend', ['--discovery-backend=file', ...argv], ENV);
}

const COMMANDS = ['local', 'frontend', 'worker', 'router', 'simulate'] as const;

describe('help', () => {
  it.each(COMMANDS)('of %s keeps its outline', async (process) => {
    const outline = renderHelp(process)
      .split('\n')
      .filter((line) => !line.startsWith('      '));
    await expect(`${outline.join('\n')}`).toMatchFileSnapshot(`../../fixtures/config/help-${process}.txt`);
  });

  it('says of a setting what it is, what is allowed, its default and its variable', () => {
    expect(renderHelp('frontend')).toContain(`  --http-port <port>
      HTTP listen port.
      Allowed: 0-65535, 0 = any free. Default: 8000. Variable DYN_HTTP_PORT.`);
  });

  it.each(COMMANDS)('of %s leaves out what is not built', (process) => {
    const heads = [...renderHelp(process).matchAll(/^ {2}(?! )(.*)/gm)].map(([, head = '']) => head);
    const named = new Set(heads.flatMap((head) => head.split(/[\s,]+/)));
    const names = UNBUILT.flatMap((unbuilt) => unbuilt.names.split(' '));
    expect(names.filter((name) => named.has(name))).toEqual([]);
  });

  it.each(COMMANDS)('of %s fits a terminal, brief and whole', (process) => {
    const lines = `${renderBriefHelp(process)}${renderHelp(process)}`.split('\n');
    expect(lines.filter((line) => line.length > 100)).toEqual([]);
  });

  it.each(COMMANDS)('of %s starts with three examples and about a dozen flags, all built', (process) => {
    const brief = renderBriefHelp(process);
    const [examples = '', flags = ''] = brief.split('\nFlags\n');
    const commands = [...examples.matchAll(/^ {2}(?! ).*stator (.*)/gm)].map(([, words = '']) => words.split(' '));
    expect(commands).toHaveLength(3);
    const used = commands.flatMap((words) =>
      words[1] === 'explain' ? [] : words.filter((word) => word.startsWith('--')),
    );
    const shown = [...flags.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag = '']) => flag);
    expect(shown.length).toBeGreaterThanOrEqual(10);
    expect(shown.length).toBeLessThanOrEqual(14);
    const rows = [...TABLE.values()].filter((row) => row.usedBy.includes(process));
    for (const flag of [...used, ...shown]) expect(rows.flatMap((row) => row.flags)).toContain(flag);
  });
});

describe('effective settings', () => {
  it('show value, origin and status of every setting', () => {
    const reports = describeSettings(frontend('--http-port=9', '--cors-origin=a', '--cors-origin=b'));
    const byName = new Map(reports.map((report) => [report.setting, report]));
    expect(byName.get('httpPort')).toMatchObject({ value: 9, shown: '9', origin: 'flag --http-port' });
    expect(byName.get('httpHost')).toMatchObject({ value: '0.0.0.0', origin: 'default' });
    expect(byName.get('corsOrigin')).toMatchObject({ value: ['a', 'b'], shown: 'a,b' });
    expect(byName.get('planeToken')).toMatchObject({ value: '***', origin: 'variable STATOR_PLANE_TOKEN' });
    expect(byName.get('modelName')).toMatchObject({ value: null, shown: 'unset' });
  });

  it('never show a secret, in any form', () => {
    const config = frontend();
    for (const text of [renderSettings(config), renderSettingsJson(config)]) {
      expect(text).not.toContain(SECRET);
      expect(text).toContain('nats://user:***@host:4222');
      expect(text).toContain('***');
    }
  });

  it('are valid JSON with the warnings beside them', () => {
    const dump = JSON.parse(renderSettingsJson(frontend('--router-prefill-policy=x')));
    expect(dump.process).toBe('frontend');
    expect(dump.settings.length).toBe([...TABLE.values()].filter((row) => row.usedBy.includes('frontend')).length);
    expect(dump.warnings.join()).toContain('--router-prefill-policy');
  });

  it('render as one line a setting under the group titles', () => {
    const text = renderSettings(frontend('--http-port=9'));
    expect(text).toMatch(
      /\nHTTP server and routes\n {2}--http-host +0\.0\.0\.0 +default\n {2}--http-port +9 +flag --http-port\n/,
    );
  });
});

describe('settings for a child process', () => {
  it('are the flags that the child reads too, without what only the parent may use', () => {
    const argv = [
      '--http-port=1',
      '--no-enable-prefix-caching',
      '--speedup-ratio',
      '5',
      '--num-workers=3',
      '--namespace=x',
    ];
    const local = resolveConfig('local', [...argv, '--dump-config-to=/d.json'], {});
    expect(forwardSettings(local, 'worker')).toEqual({
      argv: ['--namespace=x', '--enable-prefix-caching=false', '--speedup-ratio=5'],
      behind: [],
      env: { DYN_DUMP_CONFIG_TO: '' },
    });
    const forwarded = forwardSettings(local, 'worker').argv;
    const worker = resolveConfig('worker', ['--engine=mocker', ...forwarded], {}).settings;
    expect(worker).toMatchObject({ namespace: 'x', enablePrefixCaching: false, speedupRatio: 5, numWorkers: 1 });
  });

  it('carry secrets in the environment, where other users of the machine cannot read them', () => {
    const local = resolveConfig(
      'local',
      ['--engine=openai', '--engine-url=http://h', `--engine-api-key=${SECRET}`],
      {},
    );
    const { argv, env } = forwardSettings(local, 'worker');
    expect(argv.join()).not.toContain(SECRET);
    expect(env).toMatchObject({ STATOR_ENGINE_API_KEY: SECRET });
  });
});

describe('docs/configuration.md', () => {
  it('is up to date (stator config --format markdown > docs/configuration.md)', () => {
    const page = readFileSync(new URL('../../../docs/configuration.md', import.meta.url), 'utf8');
    expect(page === renderConfigurationDocs()).toBe(true);
  });

  it('has every flag and variable of the table', () => {
    const page = renderConfigurationDocs();
    const names = [...TABLE.values()].flatMap((row) => [...row.flags, ...row.olderFlags, ...row.env, ...row.olderEnv]);
    const unbuilt = UNBUILT.flatMap((each) => each.names.split(' '));
    expect([...names, ...unbuilt].filter((name) => !page.includes(`\`${name}\``))).toEqual([]);
  });

  const notBuilt = (page: string) => page.slice(page.indexOf('## Not built'));

  it('says, there or in compatibility.md, what is refused and what does nothing', () => {
    const read = (name: string) => readFileSync(new URL(`../../../docs/${name}`, import.meta.url), 'utf8');
    const said = notBuilt(read('configuration.md')) + read('compatibility.md');
    const ofValues = [...TABLE.values()].flatMap(({ type, flags, env }) =>
      Object.keys(type.refused ?? {}).map((value) => [flags[0] ?? env[0], value]),
    );
    expect(ofValues).toContainEqual(['--tokenizer', 'basetenkenizer']);
    // A line has the name and the value: `json` is a word of several settings.
    const missing = ofValues.filter(
      ([name, value]) => !said.split('\n').some((line) => [name, value].every((word) => line.includes(`\`${word}\``))),
    );
    expect(missing).toEqual([]);
    const names = [
      ...UNBUILT.flatMap((unbuilt) => unbuilt.names.split(' ')),
      ...Object.keys(REFUSED_NAMES),
      ...[...TABLE.values()].flatMap(({ about, flags }) => (about.startsWith('Rejected') ? flags : [])),
    ];
    expect(names).toEqual(expect.arrayContaining(['--static-endpoint', '--connector']));
    expect(names.filter((name) => !said.includes(`\`${name}\``))).toEqual([]);
  });

  it('says of each name that does nothing which engine gets it, and of no other', () => {
    const lines = notBuilt(renderConfigurationDocs())
      .split('\n')
      .map((line) => line.split(' | '));
    const saidOf = (name: string) =>
      lines.flatMap(([, , , each = '']) => each.split('; ')).find((each) => each.includes(`\`${name}\``));
    for (const { names } of UNBUILT.filter(({ usedBy }) => usedBy.includes('worker'))) {
      for (const name of names.split(' ').filter((each) => each.startsWith('--') && !each.includes('*'))) {
        const engines = (['vllm', 'sglang', 'trtllm'] as const).filter((engine) => {
          const { settings } = resolveConfig('worker', [`--engine=${engine}`, '--model=m', name, '1'], {});
          const inEngine = engine === 'trtllm' ? `--${name.slice(2).replaceAll('-', '_')}` : name;
          return settings.engineArguments.includes(inEngine);
        });
        expect([name, saidOf(name)?.split(': ')[1] ?? '']).toEqual([name, engines.join(', ')]);
      }
    }
    expect(saidOf('--trust-remote-code')).toBe('`--trust-remote-code`: vllm, sglang, trtllm');
  });

  it('has eight cells in every row', () => {
    const sections = renderConfigurationDocs().split('\n## ').slice(1, -2); // without the rules and the names that mislead or do nothing
    const rows = sections.flatMap((section) => section.split('\n').filter((line) => /^\| (`|-|after|key)/.test(line)));
    expect(rows.length).toBe(TABLE.size);
    expect(rows.filter((row) => row.split(/(?<!\\)\|/).length !== 10)).toEqual([]);
  });
});
