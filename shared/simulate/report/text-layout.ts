/** Widest line of a report on a terminal. */
export const COLUMNS_MAX = 100;

/** Breaks `text` at blanks into lines of at most `width`; a longer word has a line of its own. */
export function wrapText(text: string, width = COLUMNS_MAX): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line].join('\n');
}

/** Longest name of a row that stands beside its cells; a longer one stands above them. */
const NAME_MAX = 40;
const GAP = '  ';

/**
 * Rows with a name each in aligned columns, the first row being the heads. What does not fit into the width follows
 * below, under the names once more.
 */
export function fitTable(rows: readonly (readonly string[])[], width = COLUMNS_MAX): string {
  const names = rows.map(([name = '']) => name);
  const isNarrow = names.some((name) => name.length > NAME_MAX);
  const nameWidth = isNarrow ? 0 : Math.max(...names.map(({ length }) => length));
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const parts: string[] = [];
  for (let from = 1; from < widths.length; ) {
    const until = lastFitting(widths, from, width - nameWidth);
    parts.push(rows.map((row, at) => rowText(row, widths, from, until, isNarrow && at > 0, nameWidth)).join('\n'));
    from = until;
  }
  return parts.join('\n\n');
}

/** One past the last column that fits into `room` beside those from `from` on; one at least. */
function lastFitting(widths: readonly number[], from: number, room: number): number {
  let used = 0;
  for (let column = from; column < widths.length; column++) {
    used += GAP.length + widths[column]!;
    if (used > room && column > from) return column;
  }
  return widths.length;
}

function rowText(
  row: readonly string[],
  widths: readonly number[],
  from: number,
  until: number,
  isNameAbove: boolean,
  nameWidth: number,
): string {
  const cells = row.slice(from, until).map((cell, at) => GAP + cell.padStart(widths[from + at]!));
  const name = row[0]!;
  if (isNameAbove) return `${wrapText(name)}\n${cells.join('')}`;
  return `${nameWidth === 0 ? '' : name.padEnd(nameWidth)}${cells.join('')}`;
}

/** Returns a line of a report: a name, and what there is to say. */
export function line(name: string, text: string): string {
  return `${name.padEnd(22)}${text}`;
}
