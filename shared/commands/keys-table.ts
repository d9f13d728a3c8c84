import { isInForce, KEY_PREFIX, type KeyRecord } from '../access/keys/index.ts';

const HEADS = ['KEY', 'NAME', 'OWNER', 'SCOPES', 'STATE', 'LIMITS'] as const;

/** The keys as a table for people, oldest first. */
export function renderKeys(records: readonly KeyRecord[], nowMs: number): string {
  if (records.length === 0) return 'There are no keys: stator keys create --name NAME makes one\n';
  const rows = [HEADS, ...records.map((record) => cellsOf(record, nowMs))];
  const widths = HEADS.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) => `${row.map((cell, at) => cell.padEnd(widths[at]!)).join('  ')}`.trimEnd())
    .join('\n')
    .concat('\n');
}

function cellsOf(record: KeyRecord, nowMs: number): readonly string[] {
  const { id, name, owner, scopes } = record;
  return [`${KEY_PREFIX}${id}`, name, owner, scopes.join(','), stateOf(record, nowMs), limitsOf(record)];
}

function stateOf(record: KeyRecord, nowMs: number): string {
  const { revokedMs, expiresMs, previous } = record;
  if (revokedMs !== undefined) return `revoked ${day(revokedMs)}`;
  if (!isInForce(record, nowMs)) return `expired ${day(expiresMs ?? 0)}`;
  const rotated =
    previous !== undefined && previous.untilMs > nowMs ? `, the one before until ${minute(previous.untilMs)}` : '';
  return `in force${expiresMs === undefined ? '' : ` until ${day(expiresMs)}`}${rotated}`;
}

function limitsOf({ models, routes, limits }: KeyRecord): string {
  const { requestsPerMinute, tokensPerMinute, tokensPerDay } = limits;
  const parts = [
    models && `models ${models.join(',')}`,
    routes && `routes ${routes.join(',')}`,
    requestsPerMinute && `${requestsPerMinute} requests/min`,
    tokensPerMinute && `${tokensPerMinute} tokens/min`,
    tokensPerDay && `${tokensPerDay} tokens/day`,
  ];
  return parts.filter(Boolean).join('; ') || 'none';
}

function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function minute(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16)}Z`;
}
