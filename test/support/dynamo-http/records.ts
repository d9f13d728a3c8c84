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

/** What came back, recorded or now. */
export interface Answer {
  readonly status: number | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Json;
  readonly text?: string;
  readonly frames?: readonly Frame[];
}

/** What the worker got, by meaning. */
export interface WorkerSaw {
  readonly prompt?: string;
  readonly prompt_embeds?: string;
  readonly stop_conditions: JsonObject;
  readonly sampling_options: JsonObject;
  readonly output_options: JsonObject;
  readonly routing: JsonObject;
}

export type ServerName = 'default' | 'env1' | 'env2' | 'empty' | 'mocker';

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
}

export const FIXTURES = fileURLToPath(new URL('../../fixtures/dynamo-http/', import.meta.url));

/** Every recorded row of `folder`, in order, group by group. */
export function loadRows(folder: string): readonly RecordedRow[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.jsonl'))
    .flatMap((file) =>
      readFileSync(join(folder, file), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as RecordedRow),
    );
}
