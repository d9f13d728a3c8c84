import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { WorkerScript } from '../scripted-engine.ts';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** One server-sent event. */
export interface Frame {
  readonly event?: string;
  readonly data?: Json;
  readonly comment?: string;
}

/** An answer, recorded or new. */
export interface Answer {
  readonly status: number | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Json;
  readonly text?: string;
  readonly frames?: readonly Frame[];
}

/** The request that a worker received, by meaning. */
export interface WorkerSaw {
  readonly prompt?: string;
  readonly prompt_embeds?: string;
  readonly stop_conditions: JsonObject;
  readonly sampling_options: JsonObject;
  readonly output_options: JsonObject;
  readonly routing: JsonObject;
}

export type ServerName = 'default' | 'env1' | 'env2' | 'empty' | 'mocker';

/** A model of the recorded deployment (`models.json`). */
export interface RegisteredModel {
  readonly name: string;
  readonly aliases?: readonly string[];
  readonly kind: 'chat' | 'emb' | 'img' | 'vid' | 'textin';
  /** Tokens. @default 4096 */
  readonly context_length?: number;
  readonly needs_prefill_peer?: boolean;
  readonly tool_call_parser?: string;
  readonly reasoning_parser?: string;
}

export interface RecordedRow extends Answer {
  readonly id: string;
  readonly group: string;
  readonly server: ServerName;
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly headers?: readonly (readonly [string, string])[];
    readonly body?: Json;
    readonly body_bytes?: string;
    readonly body_note?: string;
    readonly headers_note?: string;
  };
  readonly worker_script?: WorkerScript;
  readonly worker_request?: readonly JsonObject[];
  readonly worker_cancelled?: boolean;
  readonly connection?: string;
  readonly product?: { readonly status: number; readonly code: string };
  /** The body as JSON, in whatever form it is recorded, or undefined if it is not JSON. */
  readonly asked?: Json | undefined;
  /** The script that the worker plays: that of the last tag in the request. */
  readonly script?: WorkerScript | undefined;
  /** The registered model that the request names. */
  readonly served?: RegisteredModel | undefined;
  /** The default server's answer to the same question on its own path. */
  readonly twin?: RecordedRow | undefined;
}

export const FIXTURES = fileURLToPath(new URL('../../fixtures/dynamo-http/', import.meta.url));

/** Loads the models of the deployment that was recorded in `folder`. */
export function loadModels(folder: string): readonly RegisteredModel[] {
  return JSON.parse(readFileSync(join(folder, 'models.json'), 'utf8'));
}

/** Loads every recorded row of `folder`, in order, group by group. */
export function loadRows(folder: string): readonly RecordedRow[] {
  const models = loadModels(folder);
  const rows = readdirSync(folder)
    .filter((file) => file.endsWith('.jsonl'))
    .flatMap((file) =>
      readFileSync(join(folder, file), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as RecordedRow),
    );
  const scripts = new Map(rows.map((row) => [row.id, row.worker_script]));
  return rows.map((row) => {
    const asked = bodyOf(row);
    const { model } = (asked ?? {}) as { readonly model?: unknown };
    const tag = [...JSON.stringify(asked ?? null).matchAll(/\[\[s:([^\]]+)\]\]/g)].at(-1)?.[1];
    return {
      ...row,
      asked,
      script: scripts.get(tag ?? row.id) ?? undefined,
      twin: twinOf(row, rows),
      served: models.find(({ name, aliases }) => name === model || aliases?.includes(String(model))),
    };
  });
}

/** Default paths of the GET routes that `env1` moves. */
const MOVED: Readonly<Record<string, string>> = { '/a/models': '/v1/models', '/a/health': '/health' };

function twinOf({ request }: RecordedRow, rows: readonly RecordedRow[]): RecordedRow | undefined {
  const path = MOVED[request.path];
  return rows.find((row) => row.request.method === 'GET' && row.request.path === path && row.server === 'default');
}

function bodyOf({ request }: RecordedRow): Json | undefined {
  if (request.body_bytes === undefined) return request.body;
  try {
    return JSON.parse(Buffer.from(request.body_bytes, 'latin1').toString('utf8')) as Json;
  } catch {
    return undefined;
  }
}
