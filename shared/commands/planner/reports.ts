import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { PlannerConfig } from '../../planner/index.ts';
import type { HistoryPoint } from './history.ts';

const SCHEMA = 'planner_diagnostics_snapshot_log_v1';

export interface ReportContents {
  readonly html: string;
  readonly points: readonly HistoryPoint[];
  /** Of this process, from 1. */
  readonly number: number;
}

/** Writes a report, and its numbers beside it; returns the path of the page. What stands there is replaced whole. */
export async function writeReport({ html, points, number }: ReportContents, config: PlannerConfig): Promise<string> {
  const { report_output_dir: folder, report_filename: fixed, report_write_gzip_log: hasLog } = config;
  const last = points.at(-1);
  const label = new Date(last?.atMs ?? 0).toISOString().slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '_');
  const name = fixed ?? `planner_report_${label}_${String(number).padStart(3, '0')}.html`;
  const path = join(folder, name);
  await mkdir(folder, { recursive: true });
  await replace(path, html);
  if (hasLog) await replace(`${path.replace(/\.html$/i, '')}.log.jsonl.gz`, await logOf(path, points, config));
  return path;
}

async function replace(path: string, contents: string | Buffer): Promise<void> {
  await writeFile(`${path}.tmp`, contents);
  await rename(`${path}.tmp`, path);
}

async function logOf(path: string, points: readonly HistoryPoint[], config: PlannerConfig): Promise<Buffer> {
  const at = new Date(points.at(-1)?.atMs ?? 0).toISOString();
  const { ttft_ms, itl_ms } = config;
  const head = {
    kind: 'metadata',
    generated_at_utc: at,
    num_snapshots: points.length,
    html_report_path: path,
    ttft_ms,
    itl_ms,
  };
  const rows = points.map(({ atMs, figures, reason }) => ({
    kind: 'snapshot',
    timestamp_s: atMs / 1000,
    timestamp_utc: new Date(atMs).toISOString(),
    reason,
    ...figures,
  }));
  const lines = [head, ...rows].map((row) => `${JSON.stringify({ schema: SCHEMA, ...row })}\n`);
  return promisify(gzip)(lines.join(''));
}
