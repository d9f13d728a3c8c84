import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type HashVector, playHashVector } from './hash-row.ts';
import { type IndexSequence, playIndexSequence } from './index-row.ts';
import type { RouterRow } from './row.ts';
import { playSelection, type SelectionCase } from './selection-row.ts';

/** Reads the rows of every `.jsonl` file in a folder, in the order of their files. */
export function readRouterFolder(folder: string): readonly RouterRow[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.jsonl'));
  return files.sort().flatMap((name) => readRouterRows(join(folder, name)));
}

/** Reads the rows of one file. The fields of a row show its kind, whatever the name of the file. */
export function readRouterRows(file: string): readonly RouterRow[] {
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.flatMap((line, at) => (line.trim() === '' ? [] : [readRow(parseLine(line), `${file}:${at + 1}`)]));
}

/** Parses a line. Worker ids beyond 2^53 are plain numbers in the files, and become text here. */
function parseLine(line: string): Partial<HashVector & IndexSequence & SelectionCase> {
  return JSON.parse(line.replace(/([:[,]\s*)(\d{16,})(?=\s*[,\]}])/g, '$1"$2"'));
}

function readRow(row: Partial<HashVector & IndexSequence & SelectionCase>, place: string): RouterRow {
  const id = [row.id ?? place, 'note' in row ? row.note : undefined].filter(Boolean).join(': ');
  if (row.ops !== undefined) return { id, play: () => playIndexSequence(row as IndexSequence) };
  if (row.local !== undefined) return { id, play: () => playHashVector(row as HashVector) };
  if (row.loads !== undefined || row.config !== undefined) {
    return { id, play: () => playSelection(row as SelectionCase) };
  }
  return { id, play: () => ['is neither a hash vector, nor an index sequence, nor a selection'] };
}
