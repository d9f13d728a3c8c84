import { showDefault } from './describe.ts';
import type { Row } from './row.ts';
import { GROUPS } from './table.ts';
import { UNBUILT } from './unbuilt.ts';

const PREFACE = `# Configuration

Generated from the table in \`shared/config/table\` by \`stator config --format markdown\`; do not edit.

A setting is taken from its flag, else its variable, else its default.
\`stator config COMMAND\` takes the flags of a command and shows every effective value and where it came from;
\`--dump-config-to FILE\` writes the same as JSON when a process starts. Secrets are shown as \`***\`.

| Subject | Rule |
|---|---|
| Flags | \`--x value\` or \`--x=value\`; the last one counts, lists append; no abbreviations. An unknown flag and a flag of another command end the start with exit code 2 and name the right one |
| Switches | \`--x\`, \`--no-x\`, \`--x=true\`, \`--x=false\`; also where the table shows \`--x\` alone |
| Variables | true: 1, true, yes, on; false: 0, false, no, off and empty. An empty variable of another type is unset, or switches off where None is allowed. Variables of other processes are ignored; an unknown \`DYN_\` or \`STATOR_\` variable is warned about |
| None | \`None\`, \`none\`, \`null\` or empty switches a setting off whose type says "or None" |
| Words | lower case; hyphen and underscore are equal |
| Numbers | decimal, without a unit; the unit is in the name or the type: s, ms, MiB = 1024^2 bytes, GB/s = 10^9 bytes/s |
| Lists | comma or blank separated |
| JSON | inline, or \`@file\` |
| Files | \`~\` is the home folder; a file or folder must exist unless the process writes it |
| Several names | aliases of one setting: when two are given and differ, the first in the table counts, with a warning. Older spellings work and warn |
| Source | whose setting it is: \`Dynamo\` by its documentation, \`1.6.1\` that release of it, \`Stator\` this product; what differs follows |
| Not built | the names at the end of this page are accepted, do nothing, and are warned about once at start |
`;

const TRAPS = `## Names that mislead

| Name | What to know |
|---|---|
| \`DYN_ROUTER_USE_KV_EVENTS\` | its flag is \`--router-kv-events\` |
| \`DYN_CHAT_PROCESSOR\`, \`DYN_DEBUG_PERF\`, \`DYN_PREPROCESS_WORKERS\` | the flags carry \`--dyn-\`, the variables do not repeat it |
| \`DYN_ROUTER_LOAD_AWARE\`, \`DYN_DECODE_FALLBACK\` | the flags are \`--load-aware\` and \`--decode-fallback\` |
| Path variables ending in \`_ENV\` | \`_ENV\` is a literal part of the name; the name without it works too and yields to it |
| \`--router-queue-threshold\` | \`None\` switches the queue off |
| Busy thresholds | they have numbers, but \`--admission-control none\`, the default, clears them |
| \`--decode-fallback\`, \`--enforce-disagg\` | not inverse: the first is about absent prefill workers, the second about a failed prefill; both together are an error |
| \`DYN_NAMESPACE\` | a filter in the frontend, the own name in a worker, which alone has the default \`dynamo\` |
| \`DYN_ENDPOINT\`, \`DYN_ROUTER_ENDPOINT\` | two variables, one flag \`--endpoint\`, by process |
| \`--block-size\` | block of the engine for mocker and simulator; older spelling of \`--router-block-size\` for the standalone router; \`--kv-cache-block-size\` overrides the model card |
| \`--aic-*\`, \`--ais-*\` | two spellings of one timing model; the router's load model and the mocker's timing share it |
| \`--seed\` | of the mock output and the simulator; ties of the router use \`STATOR_ROUTER_SEED\` |
| \`DYN_HTTP_MAX_CONNECTIONS\`, \`DYN_HTTP_TIMEOUT\` and kin | the client of a worker that fetches media, not the server |
| \`DYN_TLS_*\`, \`DYN_TCP_TLS_*\`, \`NATS_TLS_*\` | three separate sets: HTTP, request plane, NATS |
| \`DYN_SYSTEM_PORT\` | inherited by child processes: a fixed port with several workers of \`stator local\` is an error |
| \`DYN_HTTP_OVERLOAD_STATUS_CODE\` | does not move the Anthropic status, which stays 529 |
| \`AWS_ENDPOINT\` | of adapters only; tables use \`STATOR_DYNAMODB_ENDPOINT\` |
`;

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

function code(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}

function flagCell(row: Row): string {
  if (row.type.arity === 'rest') return 'after `--`';
  const negation = row.type.arity === 'switch' && row.flags[0] !== undefined ? [`--no-${row.flags[0].slice(2)}`] : [];
  const current = code([...row.flags, ...negation]);
  const older = row.olderFlags.length === 0 ? '' : `, older ${code(row.olderFlags)}`;
  return current + older || '-';
}

function variableCell(row: Row): string {
  const older = row.olderEnv.length === 0 ? '' : `, older ${code(row.olderEnv)}`;
  return row.env.length === 0 ? '-' : code(row.env) + older;
}

function describeRow(row: Row): string {
  const about = row.deprecated === undefined ? row.about : `${row.about} Deprecated: ${row.deprecated}.`;
  const type = row.type.name;
  const columns = [cell(type), cell(showDefault(row)), cell(row.allowed) || '-', row.usedBy.join(', ')];
  return `| ${[flagCell(row), variableCell(row), ...columns, cell(row.source), cell(about)].join(' | ')} |`;
}

function renderUnbuilt(): string {
  const rows = UNBUILT.map(({ about, usedBy, names, instead }) => {
    return `| ${[about, code(names.split(' ')), usedBy.join(', '), instead ?? '-'].join(' | ')} |`;
  });
  return `## Not built

These names are accepted and do nothing but warn. The planner and its configuration file are not built at all.

| what | names | accepted by | use instead |
|---|---|---|---|
${rows.join('\n')}
`;
}

/** The text of `docs/configuration.md`: the rules, every row of the table by section, names that mislead, and names that do nothing. */
export function renderConfigurationDocs(): string {
  const sections = GROUPS.map((group) => {
    const head =
      '| flag | variable | type | default | range or values | used by | source | meaning |\n|---|---|---|---|---|---|---|---|';
    return `## ${group.title}\n\n${head}\n${group.rows.map(([, row]) => describeRow(row)).join('\n')}\n`;
  });
  return [PREFACE, ...sections, TRAPS, renderUnbuilt()].join('\n');
}
