import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { runCommandLine } from '../../../functions/cli/run-command.ts';
import packageJson from '../../../package.json' with { type: 'json' };
import { throughDoors } from '../../../through-doors.mjs';

let folder = '';
let run: typeof runCommandLine;

// The three long-running commands are replaced by one that prints what it was given: this file tests what stands before them.
const ECHO = `export async function run({ settings }, env) {
  process.stdout.write(JSON.stringify({ httpPort: settings.httpPort, engine: settings.engine, args: settings.engineArguments, probe: env.PROBE }));
  if (env.PROBE === 'throw') throw new Error('port 1 is in use\\nsecond line');
  if (env.PROBE === 'setting') throw Object.assign(new Error('--x 1: too small'), { name: 'KvRouterConfigError' });
  return 7;
}`;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'stator-cli-'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  for (const name of ['local', 'frontend', 'worker']) writeFileSync(join(folder, `${name}.ts.js`), ECHO);
  await build({
    entryPoints: ['functions/cli/main.ts', 'functions/cli/run-command.ts'],
    outdir: folder,
    splitting: true,
    bundle: true,
    platform: 'node',
    format: 'esm',
    plugins: [
      throughDoors,
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
  const built = (await import(pathToFileURL(join(folder, 'run-command.js')).href)) as { runCommandLine: typeof run };
  run = built.runCommandLine;
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A process of its own. */
function spawned(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const options = { encoding: 'utf8', env: { PATH: process.env.PATH ?? '', ...env } } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, 'main.js'), ...argv], options);
  return { status, stdout, stderr };
}

/** The same in this one. */
async function stator(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const said = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      said[name] += text;
      return true;
    }),
  );
  try {
    return { status: await run(argv, env), ...said };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

describe('stator', () => {
  it('tells of each bad setting in one line, whatever the line quotes, and exits 2', async () => {
    const quoted = await stator(['worker', '--engine=mocker', '--reasoning=vm\n']);
    expect(quoted.stderr.trim().split('\n')).toHaveLength(1);
    expect(quoted.status).toBe(2);
    expect(await stator(['frontend'], { PROBE: 'setting' })).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('--x 1'),
    });
  });

  it.each([
    [['kv'], { npm_config_router_mode: 'true' }, 'npm start -- --router-mode kv'],
    [[], { npm_config_router_mode: 'kv' }, 'npm start -- --router-mode kv'],
    [[], { npm_config_interactive: 'true' }, 'npm start -- --interactive'],
    [
      ['8001'],
      { npm_config_grpc_port: 'true', npm_config_num_workers: '3' },
      'npm start -- --grpc-port --num-workers 3',
    ],
  ])('says what to write where npm has kept flags for itself: %j %j', async (values, kept, meant) => {
    const env = { npm_lifecycle_event: 'start', npm_command: 'start', ...kept };
    const { status, stdout, stderr } = await stator(['local', ...values], env);
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toBe(`stator: npm has kept flags for itself: write ${meant}\n`);
  });

  it('starts under npm with flags that it has got, whatever else npm says of itself', async () => {
    const env = {
      npm_lifecycle_event: 'start',
      npm_command: 'start',
      npm_config_user_agent: 'npm/10',
      npm_config_json: '',
    };
    expect((await stator(['local', '--router-mode', 'kv'], { ...env, npm_config_router_mode: 'kv' })).status).toBe(7);
    expect((await stator(['local'], { npm_lifecycle_event: 'npx', npm_config_router_mode: 'kv' })).status).toBe(7);
  });

  it('prints the commands and exits 2 when none is given, 0 when asked', async () => {
    const bare = spawned([]);
    const asked = await stator(['--help']);
    expect(bare.status).toBe(2);
    expect(asked.status).toBe(0);
    expect(asked.stdout).toBe(bare.stdout);
    for (const name of [
      'local',
      'frontend',
      'worker',
      'router',
      'simulate',
      'grpc',
      'secrets',
      'deploy',
      'config',
      'version',
    ]) {
      expect(asked.stdout).toMatch(new RegExp(`^ {2}${name} `, 'm'));
    }
    expect((await stator(['help'])).stdout).toBe(asked.stdout);
  });

  it('names no command in its help that is not built', async () => {
    for (const argv of [['--help'], ['--help', 'all']]) {
      expect((await stator(argv)).stdout).not.toMatch(/not built/i);
    }
  });

  it.each([['--version'], ['-v'], ['version'], ['frontend', '--version']])(
    'prints its version for %s %s',
    async (...argv) => {
      expect(await stator(argv)).toEqual({ status: 0, stdout: `stator ${packageJson.version}\n`, stderr: '' });
    },
  );

  it.each(['local', 'frontend', 'worker'])('prints the help of %s on stdout', async (name) => {
    const { status, stdout, stderr } = await stator([name, '--help']);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout.startsWith(`Usage: stator ${name} [flags]\n`)).toBe(true);
    expect(stdout).toContain(`\nExamples\n`);
    expect(stdout).toContain('--dump-config-to FILE');
    expect(stdout.split('\n').length).toBeLessThan(60);
    expect((await stator([name, '-h'])).stdout).toBe(stdout);
    expect((await stator(['help', name])).stdout).toBe(stdout);
  });

  it('introduces grpc by flags that it takes', async () => {
    const { stdout } = await stator(['grpc', '--help']);
    const flags = stdout.slice(0, stdout.indexOf('Usage:')).match(/--[\w-]+/g) ?? [];
    expect(flags).toContain('--http-port');
    for (const flag of flags.filter((name) => name !== '--kserve-grpc-server')) {
      const value = flag.endsWith('host') ? '127.0.0.1' : '9000';
      expect(await stator(['grpc', flag, value]), flag).toMatchObject({ status: 7, stderr: '' });
    }
  });

  it.each(['local', 'frontend', 'worker'])('prints all of %s when asked for all', async (name) => {
    const { status, stdout } = await stator([name, '--help', 'all']);
    expect(status).toBe(0);
    expect(stdout).toContain('--discovery-backend <enum>');
    expect((await stator([name, '--help=all'])).stdout).toBe(stdout);
    expect((await stator(['--help', 'all'])).stdout).toContain(stdout);
  });

  it('says of the planner what it does', async () => {
    expect((await stator(['planner', '--help'])).stdout).toContain(
      'Decides how many workers a fleet needs, and scales it.',
    );
  });

  it('refuses an unknown command with the nearest', async () => {
    expect(await stator(['fronted'])).toEqual({
      status: 2,
      stdout: '',
      stderr: 'stator: unknown command "fronted"; did you mean stator frontend?\n',
    });
  });

  it('runs a command with its settings and the arguments after --', async () => {
    const { status, stdout } = spawned(['worker', '--engine=mocker', '--discovery-backend=file', '--', '--help', 'x'], {
      PROBE: 'p',
    });
    expect(status).toBe(7);
    expect(JSON.parse(stdout)).toEqual({ engine: 'mocker', args: ['--help', 'x'], probe: 'p' });
  });

  it('exits 2 with one line a mistake', async () => {
    expect(await stator(['frontend', '--router-mod', 'x', '--http-port=x'])).toEqual({
      status: 2,
      stdout: '',
      stderr:
        'stator: unknown flag --router-mod; did you mean --router-mode?\n' +
        'stator: --http-port "x": not a whole number; allowed: port, 0-65535, 0 = any free\n',
    });
  });

  it('exits 1 with one line when the command fails', async () => {
    const { status, stderr } = await stator(['local'], { PROBE: 'throw' });
    expect({ status, stderr }).toEqual({ status: 1, stderr: 'stator: port 1 is in use\n' });
  });

  it('warns on stderr before it runs, as JSON lines where logs are', async () => {
    expect((await stator(['local', '--sglang-page-size=1'])).stderr).toBe(
      'stator: warning: --sglang-page-size is accepted, but does nothing in this version (scheduling details of imitated engines)\n',
    );
    const { stderr } = await stator(['local', '--sglang-page-size=1'], { DYN_LOGGING_JSONL: '1' });
    expect(JSON.parse(stderr)).toMatchObject({
      level: 'WARN',
      target: 'config',
      message: expect.stringContaining('--sglang-page-size'),
    });
  });

  it('writes the resolved configuration where --dump-config-to says', async () => {
    const path = join(folder, 'dump.json');
    const token = 'x'.repeat(40);
    spawned(['frontend', '--discovery-backend=file', '--dump-config-to', path], { STATOR_PLANE_TOKEN: token });
    const text = readFileSync(path, 'utf8');
    expect(JSON.parse(text).process).toBe('frontend');
    expect(text).not.toContain(token);
  });

  it('exits 1 when the dump cannot be written', async () => {
    const { status, stderr } = await stator(['local', '--dump-config-to', join(folder, 'no', 'dump.json')]);
    expect(status).toBe(1);
    expect(stderr).toMatch(/^stator: cannot write --dump-config-to .*name a file in a writable folder\n$/);
  });
});

describe('stator config', () => {
  it('shows the settings of local by default, of a named command with its flags', async () => {
    expect((await stator(['config'])).stdout).toMatch(/^Settings of local: /);
    const { status, stdout } = await stator(['config', 'frontend', '--http-port', '9'], { DYN_HTTP_HOST: '::1' });
    expect(status).toBe(0);
    expect(stdout).toMatch(/--http-port +9 +flag --http-port/);
    expect(stdout).toMatch(/--http-host +::1 +variable DYN_HTTP_HOST/);
  });

  it('gives JSON, and the page of all settings as markdown', async () => {
    expect(JSON.parse((await stator(['config', 'worker', '--json'])).stdout).process).toBe('worker');
    expect(JSON.parse((await stator(['config', '--format=json', '--http-port=1'])).stdout).process).toBe('local');
    expect((await stator(['config', '--format', 'markdown'])).stdout).toMatch(/^# Configuration\n/);
  });

  it('works for what must be given and for commands that are not built', async () => {
    expect((await stator(['config', 'worker'])).status).toBe(0);
    expect((await stator(['config', 'router'])).status).toBe(0);
    expect((await stator(['config', 'function'])).status).toBe(0);
  });

  it('exits 2 for mistakes of its own', async () => {
    expect((await stator(['config', 'lokal'])).stderr).toContain(
      'no settings for "lokal"; stator config takes one of: frontend',
    );
    expect(await stator(['config', '--format', 'yaml'])).toMatchObject({ status: 2 });
    expect(await stator(['config', '--nope'])).toMatchObject({ status: 2 });
  });

  it('has help', async () => {
    expect(await stator(['config', '--help'])).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('Usage: stator config'),
    });
  });
});
