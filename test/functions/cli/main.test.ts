import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };

let folder = '';

// The three long-running commands are replaced by one that prints what it was given: this file tests what stands before them.
const ECHO = `export async function run({ settings }, env) {
  console.log(JSON.stringify({ httpPort: settings.httpPort, engine: settings.engine, args: settings.engineArguments, probe: env.PROBE }));
  if (env.PROBE === 'throw') throw new Error('port 1 is in use\\nsecond line');
  if (env.PROBE === 'setting') throw Object.assign(new Error('--x 1: too small'), { name: 'KvRouterConfigError' });
  return 7;
}`;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'stator-cli-'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  for (const name of ['local', 'frontend', 'worker']) writeFileSync(join(folder, `${name}.ts.js`), ECHO);
  await build({
    entryPoints: ['functions/cli/main.ts'],
    outfile: join(folder, 'main.js'),
    bundle: true,
    platform: 'node',
    format: 'esm',
    plugins: [
      {
        name: 'echo-commands',
        setup: (builder) => {
          builder.onResolve({ filter: /^\.\/(local|frontend|worker)\.ts$/ }, ({ path, importer }) =>
            importer.endsWith('commands.ts') ? { path: `${path}.js`, external: true } : undefined,
          );
        },
      },
    ],
  });
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function stator(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const options = { encoding: 'utf8', env: { PATH: process.env.PATH ?? '', ...env } } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, 'main.js'), ...argv], options);
  return { status, stdout, stderr };
}

describe('stator', () => {
  it('tells of each bad setting in one line, whatever the line quotes, and exits 2', () => {
    const quoted = stator(['worker', '--engine=mocker', '--reasoning=vm\n']);
    expect(quoted.stderr.trim().split('\n')).toHaveLength(1);
    expect(quoted.status).toBe(2);
    expect(stator(['frontend'], { PROBE: 'setting' })).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('--x 1'),
    });
  });

  it('prints the commands and exits 2 when none is given, 0 when asked', () => {
    const bare = stator([]);
    const asked = stator(['--help']);
    expect(bare.status).toBe(2);
    expect(asked.status).toBe(0);
    expect(asked.stdout).toBe(bare.stdout);
    for (const name of ['local', 'frontend', 'worker', 'router', 'simulate', 'grpc', 'deploy', 'config', 'version']) {
      expect(asked.stdout).toMatch(new RegExp(`^ {2}${name} `, 'm'));
    }
    expect(stator(['help']).stdout).toBe(asked.stdout);
  });

  it('names no command in its help that is not built', () => {
    for (const argv of [['--help'], ['--help', 'all']]) {
      expect(stator(argv).stdout).not.toMatch(/not built/i);
    }
  });

  it.each([['--version'], ['-v'], ['version'], ['frontend', '--version']])(
    'prints its version for %s %s',
    (...argv) => {
      expect(stator(argv)).toEqual({ status: 0, stdout: `stator ${packageJson.version}\n`, stderr: '' });
    },
  );

  it.each(['local', 'frontend', 'worker'])('prints the help of %s on stdout', (name) => {
    const { status, stdout, stderr } = stator([name, '--help']);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout.startsWith(`Usage: stator ${name} [flags]\n`)).toBe(true);
    expect(stdout).toContain(`\nExamples\n`);
    expect(stdout).toContain('--dump-config-to FILE');
    expect(stdout.split('\n').length).toBeLessThan(60);
    expect(stator([name, '-h']).stdout).toBe(stdout);
    expect(stator(['help', name]).stdout).toBe(stdout);
  });

  it.each(['local', 'frontend', 'worker'])('prints all of %s when asked for all', (name) => {
    const { status, stdout } = stator([name, '--help', 'all']);
    expect(status).toBe(0);
    expect(stdout).toContain('--discovery-backend <enum>');
    expect(stator([name, '--help=all']).stdout).toBe(stdout);
    expect(stator(['--help', 'all']).stdout).toContain(stdout);
  });

  it('says of the planner what it does', () => {
    expect(stator(['planner', '--help']).stdout).toContain('Decides how many workers a fleet has.');
  });

  it('refuses an unknown command with the nearest', () => {
    expect(stator(['fronted'])).toEqual({
      status: 2,
      stdout: '',
      stderr: 'stator: unknown command "fronted"; did you mean stator frontend?\n',
    });
  });

  it('runs a command with its settings and the arguments after --', () => {
    const { status, stdout } = stator(['worker', '--engine=mocker', '--discovery-backend=file', '--', '--help', 'x'], {
      PROBE: 'p',
    });
    expect(status).toBe(7);
    expect(JSON.parse(stdout)).toEqual({ engine: 'mocker', args: ['--help', 'x'], probe: 'p' });
  });

  it('exits 2 with one line a mistake', () => {
    expect(stator(['frontend', '--router-mod', 'x', '--http-port=x'])).toEqual({
      status: 2,
      stdout: '',
      stderr:
        'stator: unknown flag --router-mod; did you mean --router-mode?\n' +
        'stator: --http-port "x": not a whole number; allowed: port, 0-65535, 0 = any free\n',
    });
  });

  it('exits 1 with one line when the command fails', () => {
    const { status, stderr } = stator(['local'], { PROBE: 'throw' });
    expect({ status, stderr }).toEqual({ status: 1, stderr: 'stator: port 1 is in use\n' });
  });

  it('warns on stderr before it runs, as JSON lines where logs are', () => {
    expect(stator(['local', '--sglang-page-size=1']).stderr).toBe(
      'stator: warning: --sglang-page-size is accepted, but does nothing in this version (scheduling details of imitated engines)\n',
    );
    const { stderr } = stator(['local', '--sglang-page-size=1'], { DYN_LOGGING_JSONL: '1' });
    expect(JSON.parse(stderr)).toMatchObject({
      level: 'WARN',
      target: 'config',
      message: expect.stringContaining('--sglang-page-size'),
    });
  });

  it('writes the resolved configuration where --dump-config-to says', () => {
    const path = join(folder, 'dump.json');
    const token = 'x'.repeat(40);
    stator(['frontend', '--discovery-backend=file', '--dump-config-to', path], { STATOR_PLANE_TOKEN: token });
    const text = readFileSync(path, 'utf8');
    expect(JSON.parse(text).process).toBe('frontend');
    expect(text).not.toContain(token);
  });

  it('exits 1 when the dump cannot be written', () => {
    const { status, stderr } = stator(['local', '--dump-config-to', join(folder, 'no', 'dump.json')]);
    expect(status).toBe(1);
    expect(stderr).toMatch(/^stator: cannot write --dump-config-to .*name a file in a writable folder\n$/);
  });
});

describe('stator config', () => {
  it('shows the settings of local by default, of a named command with its flags', () => {
    expect(stator(['config']).stdout).toMatch(/^Settings of local: /);
    const { status, stdout } = stator(['config', 'frontend', '--http-port', '9'], { DYN_HTTP_HOST: '::1' });
    expect(status).toBe(0);
    expect(stdout).toMatch(/--http-port +9 +flag --http-port/);
    expect(stdout).toMatch(/--http-host +::1 +variable DYN_HTTP_HOST/);
  });

  it('gives JSON, and the page of all settings as markdown', () => {
    expect(JSON.parse(stator(['config', 'worker', '--json']).stdout).process).toBe('worker');
    expect(JSON.parse(stator(['config', '--format=json', '--http-port=1']).stdout).process).toBe('local');
    expect(stator(['config', '--format', 'markdown']).stdout).toMatch(/^# Configuration\n/);
  });

  it('works for what must be given and for commands that are not built', () => {
    expect(stator(['config', 'worker']).status).toBe(0);
    expect(stator(['config', 'router']).status).toBe(0);
    expect(stator(['config', 'function']).status).toBe(0);
  });

  it('exits 2 for mistakes of its own', () => {
    expect(stator(['config', 'lokal']).stderr).toContain(
      'no settings for "lokal"; stator config takes one of: frontend',
    );
    expect(stator(['config', '--format', 'yaml'])).toMatchObject({ status: 2 });
    expect(stator(['config', '--nope'])).toMatchObject({ status: 2 });
  });

  it('has help', () => {
    expect(stator(['config', '--help'])).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('Usage: stator config'),
    });
  });
});
