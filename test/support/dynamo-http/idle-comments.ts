import { pausesOf } from './fields.ts';
import type { Answer, Frame, RecordedRow } from './records.ts';

/** Seconds of silence after which the server `env2` writes a comment. After twice that long, it gives up the worker. */
const KEEP_ALIVE_S = 0.1;
const GIVE_UP_S = 1;

/** Whether a frame is only a `:`, which keeps a connection alive. */
export function isComment({ comment, event, data }: Frame): boolean {
  return comment === '' && event === undefined && data === undefined;
}

/** Whether the worker pauses for longer than the server leaves a stream without a comment. */
export function hasIdleTime(row: RecordedRow): boolean {
  return idleSeconds(row) > 0;
}

/** Checks the number of comments in each silence, which depends on timing, against its bounds. */
export function idleFaults(row: RecordedRow, { frames = [] }: Answer): readonly string[] {
  const seconds = idleSeconds(row);
  if (seconds === 0) return [];
  const count = frames.filter(isComment).length;
  if (row.server !== 'env2') return count === 1 ? [] : [`${count} comments at the head of a late stream`];
  const most = seconds / KEEP_ALIVE_S + 2;
  const least = Math.max(1, Math.floor(most / 3));
  return count >= least && count <= most ? [] : [`${count} comments in ${seconds} s of silence`];
}

/** Whether the head, with a comment, leaves before the first output of the worker. */
function isLate(row: RecordedRow): boolean {
  return (pausesOf(row)[0] ?? 0) > (row.server === 'env1' ? 1 : 2);
}

function idleSeconds(row: RecordedRow): number {
  if (row.frames === undefined) return 0;
  if (row.server !== 'env2') return Number(isLate(row));
  const idle = pausesOf(row).filter((pause) => pause > KEEP_ALIVE_S);
  return idle.reduce((sum, pause) => sum + Math.min(pause, GIVE_UP_S), 0);
}
