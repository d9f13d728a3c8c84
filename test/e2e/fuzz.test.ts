import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { spawnProgram } from '../support/index.ts';
import { useScriptedServer } from './client-bed.ts';

const PYTHON = process.env.STATOR_TEST_SCHEMATHESIS ?? '';
const IS_FULL = process.env.STATOR_TEST_FAULTS === 'all';
/** The first tries the edges of every field of every route. */
const PHASES = IS_FULL ? 'coverage,fuzzing' : 'fuzzing';
const EXAMPLES = IS_FULL ? '60' : '48';
const REQUESTS_MIN = IS_FULL ? 5000 : 1000;
const FUZZING_MS_MAX = 240_000;
const LIST_LENGTH_MAX = 32;

/**
 * Models of the scripted server that take each body, so that requests get past the question who serves them. Tokens are
 * counted for every name.
 */
const MODELS: Readonly<Record<string, readonly string[]>> = {
  ChatCompletionRequest: ['plain', 't.hermes', 'r.qwen3', 'org/textin'],
  CompletionRequest: ['plain'],
  ResponseRequest: ['plain', 't.hermes'],
  CompactRequest: ['plain', 't.hermes'],
  MessageRequest: ['plain', 't.hermes', 'r.qwen3'],
  EmbeddingRequest: ['emb'],
  ImageRequest: ['img'],
  ImageEditRequest: ['img'],
  VideoRequest: ['vid'],
};

/** 501 is our answer to published features that nobody here has. */
const CHECKS = '[checks]\nnot_a_server_error.expected-statuses = ["2xx", "4xx", "501"]\n';

/** The part of the fuzzer's report that is looked at. */
interface Report {
  readonly test_cases: { readonly generated: number; readonly with_failures: number; readonly errored: number };
  readonly valid_rates: Readonly<Record<string, { readonly fuzzing?: { readonly accepted: number } }>>;
}

interface Document {
  readonly paths: Record<string, Record<string, { readonly parameters?: readonly { schema: object }[] }>>;
  readonly components: {
    readonly schemas: Record<string, { properties: Record<string, unknown>; required?: string[] }>;
  };
}

describe.runIf(PYTHON !== '')('requests that a fuzzer makes from /openapi.json', () => {
  const server = useScriptedServer();
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stator-fuzz-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it(
    'are answered as the document says, and never with a 5xx',
    async () => {
      const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as Document;
      await nameWhatIsThere(document, server.url);
      forgetLongLists(document);
      delete document.paths['/router/explain']; // no router here explains, and its bodies are those of other routes
      await writeFile(join(folder, 'openapi.json'), JSON.stringify(document));
      await writeFile(join(folder, 'schemathesis.toml'), CHECKS);
      const fuzzer = spawnProgram(
        PYTHON,
        [
          ...['-m', 'schemathesis.cli', 'run', 'openapi.json', '--url', server.url],
          ...['--phases', PHASES, '--max-examples', EXAMPLES, '--seed', '1', '--continue-on-failure'],
          // A document cannot say which values go together, so not everything that fits it can be accepted.
          ...['--exclude-checks', 'positive_data_acceptance', '--suppress-health-check', 'all'],
          ...['--generation-database', 'none', '--no-color', '--report', 'json', '--report-json-path', 'report.json'],
        ],
        { cwd: folder },
      );
      expect(await fuzzer.exited, fuzzer.stdout().slice(-20_000) + fuzzer.stderr()).toBe(0);
      const report = JSON.parse(await readFile(join(folder, 'report.json'), 'utf8')) as Report;
      expect(report.test_cases).toMatchObject({ with_failures: 0, errored: 0 });
      expect(report.test_cases.generated).toBeGreaterThanOrEqual(REQUESTS_MIN);
      const unreached = Object.entries(report.valid_rates)
        .filter(([route, { fuzzing }]) => fuzzing?.accepted === 0 && !route.includes('{id}')) // which the fuzzer deletes
        .map(([route]) => route);
      expect(unreached).toEqual([]);
    },
    FUZZING_MS_MAX,
  );
});

/**
 * Takes away bounds of lists that are too long to fuzz: lists at their bound, within lists at theirs, keep the fuzzer busy
 * for minutes a body. Lists at their bounds are sent by `body-fields.test.ts`.
 */
function forgetLongLists(node: unknown): void {
  if (typeof node !== 'object' || node === null) return;
  const { maxItems } = node as { readonly maxItems?: unknown };
  if (typeof maxItems === 'number' && maxItems > LIST_LENGTH_MAX) Reflect.deleteProperty(node, 'maxItems');
  for (const child of Object.values(node)) forgetLongLists(child);
}

/** Narrows the document to models and ids of the server: of those that a fuzzer invents, none would exist. */
async function nameWhatIsThere(document: Document, url: string): Promise<void> {
  for (const [name, models] of Object.entries(MODELS)) {
    const schema = document.components.schemas[name];
    expect.assert(schema !== undefined, name);
    schema.properties.model = { enum: models };
    schema.required = [...new Set([...(schema.required ?? []), 'model'])];
  }
  const body = JSON.stringify({ model: 'plain', input: 'hi' });
  const made = await fetch(`${url}/v1/responses`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  const { id } = (await made.json()) as { readonly id: string };
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const parameter of Object.values(operations).flatMap(({ parameters = [] }) => parameters)) {
      parameter.schema = { anyOf: [{ enum: path.includes('/models/') ? ['plain', 'emb'] : [id] }, { type: 'string' }] };
    }
  }
}
