// Adds a toy of each kind to a copy of the tree, as CONTRIBUTING.md ("How to add") says: one new file, and at most two lines
// elsewhere. What else a real one would need is what this test is to find.
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type * as Commands from '../../functions/cli/commands.ts';
import type * as Time from '../../shared/clock/index.ts';
import { SYSTEM } from '../../shared/clock/index.ts';
import type * as Config from '../../shared/config/index.ts';
import type * as Fleet from '../../shared/fleet/index.ts';
import type * as Parsers from '../../shared/parsers/index.ts';
import type * as Planes from '../../shared/planes/index.ts';
import type * as AllTelemetry from '../../shared/telemetry/index.ts';
import type * as Telemetry from '../../shared/telemetry/log/logger.ts';
import type * as WorkerProcess from '../../shared/worker/process/worker.ts';
import type * as HttpApp from '../support/http-app.ts';
import type * as Scripted from '../support/scripted-pipeline.ts';

const LINES_ELSEWHERE_MAX = 2;
/** What is said of all that there is: an addition is none of their business. */
const SUITES = [
  'test/shared/config/table.test.ts',
  'test/shared/config/resolve.test.ts',
  'test/shared/config/checks.test.ts',
  'test/shared/parsers/tool-calls/registry.test.ts',
  'test/shared/frontends/openapi.test.ts',
];
const COPIED = [
  'shared',
  'functions',
  'test/support',
  'test/shared/config',
  'test/shared/parsers/tool-calls',
  'test/shared/frontends/openapi.test.ts',
  'package.json',
  'tsconfig.json',
];

let folder: string;
const linesElsewhere = new Map<string, number>();

beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), 'stator-one-guess-')));
  await Promise.all(COPIED.map((path) => cp(path, join(folder, path), { recursive: true })));
  await symlink(await realpath('node_modules'), join(folder, 'node_modules'));
  for (const [kind, { file, text = '', lines }] of Object.entries(TOYS)) {
    if (file !== undefined) {
      await mkdir(dirname(join(folder, file)), { recursive: true });
      await writeFile(join(folder, file), text, { flag: 'wx' });
    }
    for (const [path, anchor, line, place] of lines) await addLine(path, anchor, line, place === 'instead' ? 1 : 0);
    linesElsewhere.set(kind, lines.length);
  }
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** Puts `line` in front of the one line of the file that begins with `anchor`, or in its place. */
async function addLine(path: string, anchor: string, line: string, replaced: 0 | 1): Promise<void> {
  const text = await readFile(join(folder, path), 'utf8');
  const lines = text.split('\n');
  const at = lines.findIndex((each) => each.startsWith(anchor));
  if (at < 0) throw new Error(`${path} has no line that begins with ${anchor}`);
  await writeFile(join(folder, path), lines.toSpliced(at, replaced, line).join('\n'));
}

const load = <Module>(path: string): Promise<Module> => import(/* @vite-ignore */ join(folder, path));

/** What the copy's table makes of flags. */
async function settingsOf(process: Config.Process, ...argv: readonly string[]) {
  const { resolveConfig } = await load<typeof Config>('shared/config/index.ts');
  return resolveConfig(process, argv, {}).settings;
}

interface Toy {
  /** Absent if its lines are all of it. */
  readonly file?: string;
  readonly text?: string;
  /** Path, the beginning of the line behind the new one, and the new line; or of the line that is another now. */
  readonly lines: readonly (readonly [path: string, anchor: string, line: string, place?: 'instead'])[];
}

interface SuiteReport {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly message: string;
    readonly assertionResults: readonly { readonly status: string; readonly failureMessages: readonly string[] }[];
  }[];
}

/** As far as a toy is looked for in it. */
interface Described {
  readonly paths: Readonly<
    Record<
      string,
      { post: { requestBody: { content: { 'application/json': { schema: unknown; example: unknown } } } } }
    >
  >;
  readonly components: { readonly schemas: unknown };
}

type Kind =
  | 'route'
  | 'Anthropic route'
  | 'parser'
  | 'reasoning parser'
  | 'engine'
  | 'request plane'
  | 'discovery store'
  | 'flag'
  | 'metric'
  | 'command';

const TOYS: Readonly<Record<Kind, Toy>> = {
  route: {
    file: 'shared/frontends/http/openai/toy.ts',
    text: `
      import * as z from 'zod';
      import { assembleTextless, modelName, requireShape } from '../../../protocol/index.ts';
      import { decodeContext, generate, requireServed } from '../../inference/dialect.ts';
      import type { BodyRoute } from '../route.ts';
      import { serveInference } from '../serve-inference.ts';
      import { WholeMedia } from './media.ts';
      const schema = z.looseObject({ model: modelName, ball: z.string() });
      export const toys: BodyRoute = {
        serve: serveInference({
          endpoint: 'toys',
          parse: (json) => requireShape(schema, json),
          start: (inference, body, { meter }) => {
            const { model } = body;
            const parts = { model, endpoint: 'toys', stream: false, prompt: { kind: 'body' }, body } as const;
            const request = assembleTextless({}, parts, decodeContext(inference));
            inference.identify(request);
            requireServed(inference, model, 'toys');
            const sink = new WholeMedia(inference, ([toy]) => ({ toy }));
            generate(inference, request, sink, { meter, isWritten: false });
          },
        }),
        body: { name: 'ToyRequest', schema, example: ({ Audios: model }) => ({ model, ball: 'red' }) },
      };`,
    lines: [
      [
        'shared/frontends/http/route-table.ts',
        '    ...responsesRoutes(',
        "    made('/v1/toys', async () => (await import('./openai/toy.ts')).toys, 'createToy', 'Makes a toy.'),",
      ],
      [
        'shared/protocol/generation/generation-request.ts',
        '  responses: {',
        "  toys: { modelType: 'Audios', kind: 'toys', operation: 'toys', enginePath: undefined },",
      ],
    ],
  },
  'Anthropic route': {
    file: 'shared/frontends/http/anthropic/toy.ts',
    text: `
      import * as z from 'zod';
      import { requireShape } from '../../../protocol/index.ts';
      import type { BodyRoute } from '../route.ts';
      import { readJson } from '../serve-inference.ts';
      import { sendJson } from '../sinks/send.ts';
      const schema = z.looseObject({ ball: z.string() });
      export const messageToys: BodyRoute = {
        serve: async (deps, exchange) => {
          const { ball } = requireShape(schema, await readJson(exchange, deps));
          sendJson(exchange, 200, { type: 'toy', ball });
        },
        body: { name: 'MessageToyRequest', schema, example: () => ({ ball: 'red' }) },
      };`,
    lines: [
      [
        'shared/frontends/http/route-table.ts',
        '    made(messages, loadMessages',
        "    made('/v1/toybox', async () => (await import('./anthropic/toy.ts')).messageToys, 'createToybox', 'Makes one.'),",
      ],
    ],
  },
  parser: {
    file: 'shared/parsers/tool-calls/formats/toy.ts',
    text: `
      import { countedId } from '../call-ids.ts';
      import type { ToolCallFormat } from '../format.ts';
      import { Markers } from '../../markers.ts';
      import { readUntil } from '../scan.ts';
      const BEGIN = new Markers(['<toy>']);
      const END = new Markers(['</toy>']);
      export const toy: ToolCallFormat = {
        newId: countedId,
        finder: () => BEGIN,
        *read(_marker, source, calls) {
          let name = '';
          yield* readUntil(source, END, (piece) => {
            name += piece;
          });
          calls.whole(name, '{}');
          return 'markup';
        },
      };`,
    lines: [
      ['shared/parsers/tool-calls/formats/by-name.ts', 'export { pythonic }', "export { toy } from './toy.ts';"],
      ['shared/config/parser-names.ts', "  'pythonic',", "  'toy',"],
    ],
  },
  'reasoning parser': {
    lines: [
      [
        'shared/parsers/reasoning/formats.ts',
        "  ...marked(['seed_oss']",
        "  ...marked(['toy_thoughts'], { openers: ['<toy:think>'], closers: ['</toy:think>'] }),",
      ],
      ['shared/config/parser-names.ts', "  'minimax_append_think',", "  'toy_thoughts',"],
    ],
  },
  engine: {
    file: 'shared/engines/toy/toy-engine.ts',
    text: `
      import type { EngineKind } from '../types.ts';
      import type { Engine } from '../types.ts';
      const engine: Engine = {
        kind: 'toy',
        start: async () => ({
          contextLength: 100,
          kvBlockSizeTokens: 16,
          totalKvBlocks: 1,
          maxNumSeqs: 1,
          maxNumBatchedTokens: 100,
          dataParallelSize: 1,
          modelInput: 'Text',
          modelType: ['Chat'],
          publishesKvEvents: false,
        }),
        generate: (_request, sink) => sink.end(),
        health: async () => {},
        load: () => [],
        onKvEvents: () => {},
        stop: async () => {},
      };
      export const toy: EngineKind = {
        displayName: () => 'toy-model',
        open: async () => ({ engine, model: {} }),
      };`,
    lines: [
      ['shared/engines/kinds.ts', '  openai: async', "  toy: async () => (await import('./toy/toy-engine.ts')).toy,"],
      [
        'shared/config/table/worker.ts',
        "    values: ['mocker',",
        "    values: ['toy', 'mocker', 'vllm', 'sglang', 'trtllm', 'openai'],",
        'instead',
      ],
    ],
  },
  'request plane': {
    file: 'shared/planes/request/toy/kind.ts',
    text: `
      import { createMemoryRequestPlane } from '../../../../test/support/memory-request-plane.ts';
      import type { RequestPlaneKind } from '../types.ts';
      export const toy: RequestPlaneKind = {
        openCalling: (_settings, { clock }) => ({ ...createMemoryRequestPlane({ clock }), name: 'toy' }),
        openServing: (_settings, { clock }) => ({ ...createMemoryRequestPlane({ clock }), name: 'toy' }),
      };`,
    lines: [
      [
        'shared/planes/request/kinds.ts',
        '  tcp: async () => tcp,',
        "  toy: async () => (await import('./toy/kind.ts')).toy,",
      ],
      [
        'shared/config/table/request-plane.ts',
        "    values: ['tcp', 'nats'],",
        "    values: ['tcp', 'nats', 'toy'],",
        'instead',
      ],
    ],
  },
  'discovery store': {
    file: 'shared/discovery/toy/toy-discovery.ts',
    text: `
      import { openMemory } from '../memory/memory-discovery.ts';
      import type { OpenStore } from '../options.ts';
      export const openToy: OpenStore = async (settings, options) =>
        Object.assign(await openMemory(settings, options), { backend: 'toy' });`,
    lines: [
      [
        'shared/discovery/stores.ts',
        '  mem: async',
        "  toy: async () => (await import('./toy/toy-discovery.ts')).openToy,",
      ],
      ['shared/config/table/discovery.ts', "  mem: 'one process',", "  toy: 'one machine',"],
    ],
  },
  flag: {
    file: 'shared/config/table/toy.ts',
    text: `
      import { frontend } from '../row.ts';
      export const toyRows = {
        toyCount: frontend.int({
          names: '--toy-count STATOR_TOY_COUNT',
          range: { min: 0, max: 9 },
          default: 3,
          about: 'How many toys there are.',
        }),
      };`,
    lines: [
      ['shared/config/table.ts', 'import { workerRows }', "import { toyRows } from './table/toy.ts';"],
      ['shared/config/table.ts', '  Cloud: ', '  Toys: toyRows,'],
    ],
  },
  metric: {
    file: 'shared/telemetry/metrics/toy-metrics.ts',
    text: `
      import type { MetricRegistry } from './registry.ts';
      export function createToyMetrics(registry: MetricRegistry) {
        const broken = registry.counter('stator_frontend_broken_toys_total', 'Toys that broke.', 'colour');
        return { toyBroke: (colour: string) => broken.with(colour).add() };
      }`,
    lines: [
      [
        'shared/telemetry/metrics/frontend-metrics.ts',
        'import { TurnClock }',
        "import { createToyMetrics } from './toy-metrics.ts';",
      ],
      [
        'shared/telemetry/metrics/frontend-metrics.ts',
        '    ...createStageMetrics(',
        '    ...createToyMetrics(registry),',
      ],
    ],
  },
  command: {
    file: 'shared/commands/toy.ts',
    text: `
      export const TOY_HELP = 'Usage: stator toy BALL';
      export async function runToy([ball = 'none']: readonly string[]): Promise<string> {
        return \`a \${ball} ball\`;
      }`,
    lines: [
      ['shared/commands/index.ts', 'export { runSecrets,', "export { runToy, TOY_HELP } from './toy.ts';"],
      [
        'functions/cli/commands.ts',
        '  artifacts: {',
        "  toy: { about: 'Makes a toy', load: async () => { const { TOY_HELP: help, runToy: run } = await import('../../shared/commands/index.ts'); return { help, run }; } },",
      ],
    ],
  },
};

describe('a newcomer adds, in one file and at most two lines elsewhere,', () => {
  it.each(Object.keys(TOYS))('a toy of each: %s', (kind) => {
    expect(linesElsewhere.get(kind)).toBeLessThanOrEqual(LINES_ELSEWHERE_MAX);
  });

  it('a route that is served, refuses other methods and is documented with its body and an example', async () => {
    const { createTestApp } = await load<typeof HttpApp>('test/support/http-app.ts');
    const { ScriptedPipeline, servedModel } = await load<typeof Scripted>('test/support/scripted-pipeline.ts');
    const speaker = servedModel('m', {
      card: { ...servedModel('m').card, model_type: ['Audios'], model_input: 'Text' },
    });
    const pipeline = new ScriptedPipeline([speaker]).onGenerate(({ sink }) => {
      sink.body({ colour: 'red' });
      sink.end({ promptTokens: 0, completionTokens: 0 }, false);
    });
    const { app } = createTestApp({ pipeline });
    const ask = (path: string, init?: RequestInit) => app.fetch(new Request(`http://localhost${path}`, init));
    const document = (await (await ask('/openapi.json')).json()) as Described;
    const { schema, example } = document.paths['/v1/toys']!.post.requestBody.content['application/json'];
    expect(schema).toEqual({ $ref: '#/components/schemas/ToyRequest' });
    expect(document.components.schemas).toHaveProperty('ToyRequest.properties.ball');
    const headers = { 'content-type': 'application/json' };
    const served = await ask('/v1/toys', { method: 'POST', headers, body: JSON.stringify(example) });
    expect(await served.json()).toEqual({ toy: { colour: 'red' } });
    const refused = await ask('/v1/toys');
    expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'POST']);
  });

  it('a tool-call parser that the flag takes and that reads calls', async () => {
    const { createToolCallParser } = await load<typeof Parsers>('shared/parsers/index.ts');
    const { systemRandom } = await load<typeof Time>('shared/clock/index.ts');
    const tools = [{ type: 'function', function: { name: 'ball' } }] as const;
    const heard: string[] = [];
    const out = {
      content: (text: string) => void heard.push(text),
      callStart: (_at: number, _id: string, name: string) => void heard.push(`call ${name}`),
      callArguments: (_at: number, text: string) => void heard.push(text),
    };
    const parser = createToolCallParser('toy', { tools, random: systemRandom });
    parser?.push('A toy: <toy>ball</toy>', out);
    expect(parser?.end('stop', out)).toBe('tool_calls');
    expect(heard).toEqual(['A toy: ', 'call ball', '{}']);
    expect((await settingsOf('worker', '--engine=mocker', '--dyn-tool-call-parser=toy')).toolCallParser).toBe('toy');
  });

  it('an engine that a worker serves', async () => {
    const { startWorkerProcess } = await load<typeof WorkerProcess>('shared/worker/process/worker.ts');
    const { resolveConfig } = await load<typeof Config>('shared/config/index.ts');
    const { silentLogger } = await load<typeof Telemetry>('shared/telemetry/log/logger.ts');
    const config = resolveConfig('worker', ['--engine=toy'], { DYN_DISCOVERY_BACKEND: 'mem' });
    const worker = await startWorkerProcess(config, SYSTEM, silentLogger, new AbortController().signal);
    expect(worker.workers[0]?.card.display_name).toBe('toy-model');
    await worker.drain();
  });

  it('a request plane that processes call and serve by', async () => {
    const { callingPlane, servingPlane } = await load<typeof Fleet>('shared/fleet/index.ts');
    const { silentObserver } = await load<typeof Planes>('shared/planes/index.ts');
    const { resolveConfig } = await load<typeof Config>('shared/config/index.ts');
    const argv = ['--request-plane=toy'];
    const calling = await callingPlane(resolveConfig('frontend', argv, {}).settings, SYSTEM.clock, silentObserver);
    const serving = await servingPlane(
      resolveConfig('worker', [...argv, '--engine=mocker'], {}).settings,
      SYSTEM.clock,
      silentObserver,
    );
    expect([calling.name, serving.name]).toEqual(['toy', 'toy']);
  });

  it('a discovery store that processes register in', async () => {
    const { openDiscovery } = await load<typeof Fleet>('shared/fleet/index.ts');
    const { fleetHost } = await load<typeof Planes>('shared/planes/index.ts');
    const { resolveConfig } = await load<typeof Config>('shared/config/index.ts');
    const { silentLogger } = await load<typeof Telemetry>('shared/telemetry/log/logger.ts');
    const { settings } = resolveConfig('frontend', ['--discovery-backend=toy'], {});
    const discovery = await openDiscovery(settings, silentLogger);
    expect(discovery.backend).toBe('toy');
    expect(fleetHost(undefined, settings, undefined)).toBe('127.0.0.1'); // it reaches no other machine
    await discovery.close();
  });

  it('a flag that is read, checked, explained and documented', async () => {
    expect(await settingsOf('frontend')).toMatchObject({ toyCount: 3 });
    expect(await settingsOf('frontend', '--toy-count', '7')).toMatchObject({ toyCount: 7 });
    await expect(settingsOf('frontend', '--toy-count', '10')).rejects.toThrow('--toy-count');
    const { renderConfigurationDocs, renderHelp } = await load<typeof Config>('shared/config/index.ts');
    expect(renderHelp('frontend')).toContain('--toy-count');
    expect(renderConfigurationDocs()).toContain('STATOR_TOY_COUNT');
  });

  it("a route of Anthropic's that is served and documented", async () => {
    const { createTestApp } = await load<typeof HttpApp>('test/support/http-app.ts');
    const { app } = createTestApp({ settings: { anthropic: { isEnabled: true, stripsPreamble: false } } });
    const document = (await (await app.fetch(new Request('http://localhost/openapi.json'))).json()) as Described;
    const { example } = document.paths['/v1/toybox']!.post.requestBody.content['application/json'];
    const headers = { 'content-type': 'application/json' };
    const init = { method: 'POST', headers, body: JSON.stringify(example) };
    const served = await app.fetch(new Request('http://localhost/v1/toybox', init));
    expect(await served.json()).toEqual({ type: 'toy', ball: 'red' });
  });

  it('a reasoning parser that the flag takes and that splits a text', async () => {
    const { createReasoningParser, findReasoningFormat, planReasoning } =
      await load<typeof Parsers>('shared/parsers/index.ts');
    const found = findReasoningFormat('toy_thoughts');
    const plan = found?.kind === 'found' ? planReasoning(found.format, { promptText: '' }) : undefined;
    const parser = plan && createReasoningParser(plan);
    const heard: string[] = [];
    const out = {
      content: (text: string) => void heard.push(text),
      reasoning: (text: string) => void heard.push(`thought ${text}`),
    };
    parser?.push('<toy:think>red</toy:think>ball', out);
    parser?.end(out);
    expect(heard).toEqual(['thought red', 'ball']);
    const { reasoningParser } = await settingsOf('worker', '--engine=mocker', '--dyn-reasoning-parser=toy_thoughts');
    expect(reasoningParser).toBe('toy_thoughts');
  });

  it('a metric that a frontend shows', async () => {
    const { createFrontendMetrics } = await load<typeof AllTelemetry>('shared/telemetry/index.ts');
    const metrics = createFrontendMetrics();
    Object.assign({ toyBroke: (_colour: string) => {} }, metrics).toyBroke('red');
    expect(await metrics.render()).toContain('stator_frontend_broken_toys_total{colour="red"} 1\n');
  });

  it('a command that is listed and runs', async () => {
    const { ONE_SHOT_COMMANDS } = await load<typeof Commands>('functions/cli/commands.ts');
    const { run } = await ONE_SHOT_COMMANDS.toy!.load();
    expect(await run(['red'], {}, () => {})).toBe('a red ball');
  });

  it('none of which fails a suite that looks at every one of its kind', async () => {
    const config = {
      cacheDir: '.vite',
      test: { include: SUITES, testTimeout: 60_000, pool: 'forks', isolate: false, maxWorkers: 1 },
    };
    await writeFile(join(folder, 'vitest.config.mjs'), `export default ${JSON.stringify(config)};`);
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('VITEST')));
    const argv = ['node_modules/vitest/vitest.mjs', 'run', '--reporter=json'];
    const { stdout } = await promisify(execFile)(process.execPath, argv, { cwd: folder, env }).catch(
      (error: { stdout: string }) => error,
    );
    const { numPassedTests, testResults } = JSON.parse(stdout) as SuiteReport;
    const failures = testResults.flatMap(({ message, assertionResults }) => [
      ...(message === '' ? [] : [message]),
      ...assertionResults.filter(({ status }) => status === 'failed').map(({ failureMessages: [why] }) => why),
    ]);
    expect(failures).toEqual([]);
    expect(numPassedTests).toBeGreaterThan(100);
  }, 400_000); // they load the sources once more, on slow machines too

  it('all of which the compiler accepts', async () => {
    const tsconfig = { extends: './tsconfig.json', include: ['shared', 'functions'] };
    await writeFile(join(folder, 'tsconfig.toys.json'), JSON.stringify(tsconfig));
    const compiler = 'node_modules/typescript-native/bin/tsc';
    const argv = [compiler, '--noEmit', '-p', 'tsconfig.toys.json'];
    const { stdout } = await promisify(execFile)(process.execPath, argv, { cwd: folder }).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout).toBe('');
  }, 400_000); // the compiler reads half of the tree
});
