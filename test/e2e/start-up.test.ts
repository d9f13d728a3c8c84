import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { commandsOf, readPages } from '../support/docs/blocks.ts';
import { runStator, type StatorProcess, sseData, useFleet } from '../support/index.ts';

const README = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');

/** What the pages leave to the reader. */
const MADE_UP = { MODEL: 'm', CONNECTOR: '{}', PRODUCER: '{}', CONSUMER: '{}', FLEETS: '{"fleets":[]}' };
const fleet = useFleet();
let local: StatorProcess;

beforeAll(async () => {
  local = await fleet.local();
});

/** Commands of the README's shell blocks, a line that ends in a backslash joined with the next. */
function readmeCommands(): readonly string[] {
  const blocks = [...README.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block = '']) => block);
  return blocks.flatMap((block) => block.replaceAll('\\\n', ' ').split('\n')).filter((line) => line !== '');
}

/** The words of a command as a shell reads them, in which `variables` are set. */
function shellWords(command: string, variables: Readonly<Record<string, string>> = {}): readonly string[] {
  const print = `process.stdout.write(JSON.stringify(process.argv.slice(1)))`;
  const quoted = `'${process.execPath}' -e '${print}' -- ${command}`;
  return JSON.parse(execFileSync('sh', ['-c', quoted], { encoding: 'utf8', env: { ...process.env, ...variables } }));
}

/** Sends what `curl` would: the few options that our texts use, and no others. */
function curl(command: string): Promise<Response> {
  const [program, ...words] = shellWords(command);
  expect(program).toBe('curl');
  const headers: Record<string, string> = {};
  let url = '';
  let body: string | undefined;
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    if (word === '-N') continue;
    if (word === '-H') {
      const [name = '', value = ''] = (words[++at] ?? '').split(': ');
      headers[name] = value;
    } else if (word === '-d') body = words[++at];
    else if (word.startsWith('http')) url = word;
    else throw new Error(`this test does not know ${word}`);
  }
  return fetch(url, { method: body === undefined ? 'GET' : 'POST', headers, ...(body === undefined ? {} : { body }) });
}

async function expectStreamedAnswer(response: Response): Promise<void> {
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
  const data: string[] = [];
  for await (const each of sseData(response)) data.push(each);
  expect(data.length).toBeGreaterThan(10);
  expect(data.at(-1)).toBe('[DONE]');
}

/** A home with the model that the examples name. */
function home(): string {
  const path = join(fleet.temporary, 'home');
  mkdirSync(join(path, 'models/Qwen3-0.6B'), { recursive: true });
  return path;
}

/** What of a command can be tried without serving anything, and without a template or an account to look at. */
function argsToTry(command: string, words: readonly string[]): readonly string[] {
  if (command === 'keys') return [command, ...words];
  if (command === 'deploy') return [command, ...words, '--help'];
  return ['config', command, ...words];
}

describe('npm start', () => {
  it('builds and runs stator local, as this suite does', () => {
    expect(packageJson.scripts.start).toBe('node esbuild.config.mjs && exec dist/stator.js local');
    expect(packageJson.bin).toEqual({ stator: 'bin/stator.js' });
  });

  it('prints a request to try that works', async () => {
    const [command = ''] =
      local
        .stdout()
        .replaceAll('\\\n', ' ')
        .match(/curl .*/) ?? [];
    await expectStreamedAnswer(await curl(command));
  });
});

describe('the README', () => {
  it('shows a request that works, except for the port', async () => {
    const command = readmeCommands().find((line) => line.startsWith('curl ')) ?? '';
    expect(command).toContain('http://127.0.0.1:8000/');
    await expectStreamedAnswer(await curl(command.replace('http://127.0.0.1:8000', local.url)));
  });

  it('shows stator commands whose flags exist and work', async () => {
    const commands = readmeCommands().flatMap((line) => {
      const [, process = 'local', flags = ''] = line.match(/^(?:npm start --|npx stator (\w+)) (.*)$/) ?? [];
      if (flags === '') return [];
      const words = flags
        .replace(/#.*| 2>&1 .*/, '')
        .trim()
        .split(/\s+/);
      return [{ line, args: argsToTry(process, words) }];
    });
    expect(commands.length).toBeGreaterThanOrEqual(5);
    const outcomes = await Promise.all(commands.map(({ args }) => runStator(args, { HOME: home() })));
    for (const [at, { code, stderr }] of outcomes.entries()) {
      expect({ command: commands[at]?.line, code, stderr }).toEqual({
        command: commands[at]?.line,
        code: 0,
        stderr: expect.not.stringMatching(/^stator: /m),
      });
    }
  });

  it('and the other pages show no command for a machine that is not here whose flags do not exist', async () => {
    const commands = readPages(process.cwd()).flatMap(({ blocks }) =>
      blocks
        .filter(({ language, notRun }) => language === 'sh' && notRun !== undefined)
        .flatMap((block) => commandsOf(block).map((line) => ({ place: block.place, line })))
        .flatMap(({ place, line }) => {
          const [, process = '', flags = ''] =
            line.match(/npx stator (frontend|worker|router|planner|local) (.*)$/) ?? [];
          if (process === '') return [];
          const given = shellWords(flags, { ...MADE_UP, HOME: home() });
          const words = given.map((word) => (word === 'fleets.json' ? MADE_UP.FLEETS : word)); // no such file is here
          return [{ place, args: ['config', process, ...words] }];
        }),
    );
    expect(commands.length).toBeGreaterThanOrEqual(15);
    const outcomes = await Promise.all(commands.map(({ args }) => runStator(args, { HOME: home() })));
    const wrong = outcomes.flatMap(({ code, stderr }, at) => (code === 0 ? [] : [{ ...commands[at], stderr }]));
    expect(wrong).toEqual([]);
  });

  it('names no command whose help does not begin with it', async () => {
    const named = [...README.matchAll(/^\| `stator (\w+)` *\|/gm)].map(([, name = '']) => name);
    const outcomes = await Promise.all(named.map((name) => runStator([name, '--help'])));
    for (const [at, { code, stdout }] of outcomes.entries()) {
      expect([code, stdout]).toEqual([0, expect.stringMatching(new RegExp(`^(?:Usage: )?stator ${named[at]} `))]);
    }
  });

  it('names the commands that stator --help lists', async () => {
    const { stdout } = await runStator(['--help']);
    const [list = ''] = stdout.match(/^Commands\n(?: .*\n)*/m) ?? [];
    const listed = [...list.matchAll(/^ {2}(\w+) /gm)].map(([, name]) => name).filter((name) => name !== 'version');
    const named = [...README.matchAll(/^\| `stator (\w+)` *\|/gm)].map(([, name]) => name);
    expect(named.sort()).toEqual(listed.sort());
  });
});
