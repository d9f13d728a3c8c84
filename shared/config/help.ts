import { showDefault, showValue } from './describe.ts';
import { type Asked, BRIEFS } from './help-briefs.ts';
import type { Command, Process } from './processes.ts';
import type { Row } from './row.ts';
import { GROUPS, rowsOf, TABLE } from './table.ts';

const WIDTH = 96;
const INDENT = '      ';
/** Column at which the brief help says what a flag is for. */
const ABOUT_COLUMN = 32;

/** Breaks `text` into lines of at most `WIDTH` characters, each after `indent`. */
function wrapText(text: string, indent: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > WIDTH) {
      lines.push(indent + line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, indent + line].join('\n');
}

function headOf(row: Row): string {
  if (row.type.arity === 'rest') return '-- ARGUMENTS';
  const names = row.flags.length > 0 ? row.flags.join(', ') : row.env.join(', ');
  if (row.type.arity === 'switch' && row.flags.length > 0) return `${names}, --no-${row.flags[0]?.slice(2)}`;
  return `${names} <${row.type.name}>`;
}

function notesOf(row: Row): string {
  const variables = row.flags.length > 0 && row.env.length > 0 ? [`Variable ${row.env.join(', ')}.`] : [];
  const allowed = row.allowed === '' ? [] : [`Allowed: ${row.allowed}.`];
  return [...allowed, `Default: ${showDefault(row)}.`, ...variables].join(' ');
}

function describeRow(row: Row): string {
  return [wrapText(headOf(row), '  '), wrapText(row.about, INDENT), wrapText(notesOf(row), INDENT)].join('\n');
}

/** Every setting of `process`, by section. */
export function renderHelp(process: Process): string {
  const sections = GROUPS.flatMap((group) => {
    const rows = rowsOf(process, group.rows);
    return rows.length === 0 ? [] : [`${group.title}\n${rows.map(([, row]) => describeRow(row)).join('\n')}`];
  });
  return `${sections.join('\n\n')}\n`;
}

function briefHead(row: Row, { flag = row.flags[0], value = valueName(row) }: Asked): string {
  if (row.type.arity === 'rest') return '-- ARGUMENTS';
  const letter = row.flags.find((name) => !name.startsWith('--'));
  const names = letter === undefined ? `${flag}` : `${letter}, ${flag}`;
  return row.type.arity === 'switch' ? names : `${names} ${value}`;
}

/** The type without its unit: `int s` is INT. */
function valueName(row: Row): string {
  return row.type.name.replace(/\W.*/, '').toUpperCase();
}

function briefLine(process: Process, asked: Asked): string {
  const { setting, about } = asked;
  const row = TABLE.get(setting);
  if (row === undefined) throw new Error(`no row ${setting}`);
  const own = row.defaultFor[process] ?? row.default;
  const hasOwn = typeof own === 'number' || (typeof own === 'string' && own !== '');
  const text = hasOwn && !about.includes('default') ? `${about} (default: ${showValue(row, own)})` : about;
  const head = `  ${briefHead(row, asked)}`;
  const [first = '', ...more] = wrapText(text, ' '.repeat(ABOUT_COLUMN)).split('\n');
  if (head.length > ABOUT_COLUMN - 2) return [head, first, ...more].join('\n');
  return [head + first.slice(head.length), ...more].join('\n');
}

/** The examples and the dozen flags of `command` that matter most; `renderHelp` has all. */
export function renderBriefHelp(command: Command): string {
  const { examples, flags } = BRIEFS[command];
  const shown = examples.map(({ command, about }) => `  ${command}\n${wrapText(about, INDENT)}`);
  return `Examples\n${shown.join('\n')}\n\nFlags\n${flags.map((flag) => briefLine(command, flag)).join('\n')}\n`;
}
