import { COLUMNS_MAX } from './lint.ts';

/** Where the text of a line begins, and what the lines begin with over which its paragraph runs on. */
interface Shape {
  readonly textStart: number;
  readonly nextPrefix: string;
}

/**
 * Wraps the lines of prose that end beyond the last column, and leaves all others as they are. What a line loses goes
 * to the front of the next line of its paragraph. A comment behind code is not wrapped: the linter still reports it.
 */
export function wrapLines(text: string, isPage: boolean): string {
  const lines = text.split('\n');
  let isCode = false;
  for (let index = 0; index < lines.length; index += 1) {
    const line = opened(lines, index, isPage);
    if (/^\s*(?:\* )?```/.test(line)) isCode = !isCode;
    if (isCode || line.length <= COLUMNS_MAX || line.includes('://')) continue;
    const shape = isPage ? shapeOfPage(line) : shapeOfComment(line);
    const cut = shape && lastBlank(line, shape.textStart);
    if (!shape || cut === undefined) continue;
    const rest = line.slice(cut + 1);
    lines[index] = line.slice(0, cut).trimEnd();
    const next = lines[index + 1];
    if (next !== undefined && runsOn(next, shape, isPage)) {
      lines[index + 1] = `${shape.nextPrefix}${rest} ${next.slice(shape.nextPrefix.length)}`;
    } else if (!isPage && rest.trimEnd() === '*/') {
      lines.splice(index + 1, 0, shape.nextPrefix.trimEnd().replace(/\*$/, '*/'));
    } else {
      lines.splice(index + 1, 0, shape.nextPrefix + rest);
    }
  }
  return lines.join('\n');
}

/** Returns the line at `index`; a docstring on one line that is too long is first laid over three. */
function opened(lines: string[], index: number, isPage: boolean): string {
  const line = lines[index] ?? '';
  const whole = isPage || line.length <= COLUMNS_MAX ? null : /^(\s*)\/\*\* (.*) \*\/$/.exec(line);
  if (!whole) return line;
  lines.splice(index, 1, `${whole[1]}/**`, `${whole[1]} * ${whole[2]}`, `${whole[1]} */`);
  return `${whole[1]}/**`;
}

function shapeOfPage(line: string): Shape | undefined {
  if (/^\s*(?:\||#|<|!)/.test(line)) return undefined;
  const start = /^\s*(?:[-*] |\d+\. |> )?/.exec(line)?.[0] ?? '';
  const nextPrefix = start.includes('>') ? start : ' '.repeat(start.length);
  return { textStart: start.length, nextPrefix };
}

function shapeOfComment(line: string): Shape | undefined {
  const start = /^\s*(?:\/\/|\*) (?:- |\d+\. )?/.exec(line)?.[0];
  if (start === undefined || line.slice(start.length).startsWith('|')) return undefined;
  const mark = /^\s*(?:\/\/|\*) /.exec(line)?.[0] ?? '';
  const indent = /^\s*/.exec(line.slice(mark.length))?.[0] ?? '';
  const nextPrefix = mark + indent + ' '.repeat(start.length - mark.length);
  return { textStart: start.length + indent.length, nextPrefix };
}

/**
 * Finds the last blank before the last column at which a line can end: not within code, nor before what would begin a
 * list.
 */
function lastBlank(line: string, textStart: number): number | undefined {
  for (let at = line.lastIndexOf(' ', COLUMNS_MAX); at > textStart; at = line.lastIndexOf(' ', at - 1)) {
    const before = line.slice(0, at);
    if ((before.split('`').length - 1) % 2 === 0 && !/^(?:[-+*#>|]|\d+[.)])(?:\s|$)/.test(line.slice(at + 1)))
      return at;
  }
  return undefined;
}

/** Whether `next` goes on with the paragraph of the line before it. */
function runsOn(next: string, { nextPrefix }: Shape, isPage: boolean): boolean {
  const text = next.slice(nextPrefix.length);
  if (!next.startsWith(nextPrefix) || text.trim() === '') return false;
  return isPage ? !/^\s*(?:[-*] |\d+\. |[|#<>]|```)/.test(text) : !/^(?:\s|[-|@/]|\d+\. |```)/.test(text);
}
