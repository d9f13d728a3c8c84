import { showDefault } from './describe.ts';
import type { Process } from './processes.ts';
import type { Row } from './row.ts';
import { GROUPS, rowsOf } from './table.ts';

const WIDTH = 100;
const INDENT = '      ';

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
  const built = row.built ? [] : ['Not built yet.'];
  return [...allowed, `Default: ${showDefault(row)}.`, ...variables, ...built].join(' ');
}

function describeRow(row: Row): string {
  return [`  ${headOf(row)}`, wrapText(row.about, INDENT), wrapText(notesOf(row), INDENT)].join('\n');
}

/** Every setting of `process` that a user can give on the command line or in the environment, by section. */
export function renderHelp(process: Process): string {
  const sections = GROUPS.flatMap((group) => {
    const rows = rowsOf(process, group).filter(
      ([, row]) => row.flags.length + row.env.length > 0 || row.type.arity === 'rest',
    );
    return rows.length === 0 ? [] : [`${group.title}\n${rows.map(([, row]) => describeRow(row)).join('\n')}`];
  });
  return `${sections.join('\n\n')}\n`;
}
