import ts from 'typescript';
import type { Message } from './comments.ts';

/** The places of a title that show a part of a row: `%s` the next element of the row, `$name` a field of it. */
const SHOWN = /%[%a-zA-Z#$]|\$[\w.]+/g;

/**
 * Reads the titles of a file of tests: those of `it`, `test` and `describe`. Behind `each` it also reads the parts of
 * rows that the title shows, if the file itself spells the rows out.
 */
export function readTitles(path: string, text: string): Message[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const titles = new Map<ts.Node, Message>();
  const add = (node: ts.Node, said: string): void => {
    titles.set(node, { line: file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1, text: said });
  };
  const visit = (node: ts.Node): void => {
    ts.forEachChild(node, visit);
    if (!ts.isCallExpression(node) || !/^(?:it|test|describe)\b/.test(node.expression.getText(file))) return;
    const [title] = node.arguments;
    const said = title && textOf(title);
    if (title === undefined || said === undefined) return;
    add(title, said);
    for (const shown of shownParts(rowsOf(node), said)) add(shown, textOf(shown) ?? '');
  };
  visit(file);
  return [...titles.values()];
}

/** Returns what a literal says. Values within a template count as one word each, and texts within them are read. */
function textOf(node: ts.Node): string | undefined {
  if (ts.isStringLiteralLike(node) || ts.isIdentifier(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return undefined;
  const said = node.templateSpans.map(({ expression, literal }) => `${textsWithin(expression) || 'x'}${literal.text}`);
  return `${node.head.text}${said.join('')}`;
}

function textsWithin(node: ts.Node): string {
  const own = ts.isStringLiteralLike(node) ? [node.text] : [];
  ts.forEachChild(node, (child) => void own.push(textsWithin(child)));
  return own.filter((text) => text !== '').join(' / ');
}

/** Returns the rows of `each(rows)(title)`, or none for any other call. */
function rowsOf({ expression }: ts.CallExpression): readonly ts.Node[] {
  if (!ts.isCallExpression(expression) || !ts.isPropertyAccessExpression(expression.expression)) return [];
  const [rows] = expression.arguments;
  return rows && /^(?:each|for)$/.test(expression.expression.name.text) ? elementsOf(rows) : [];
}

/** Returns the elements of a list that the file spells out: as a literal, as a constant, or as entries of an object. */
function elementsOf(list: ts.Node): readonly ts.Node[] {
  const node = spelledOut(list);
  if (node && ts.isArrayLiteralExpression(node)) {
    return node.elements.flatMap((each) => (ts.isSpreadElement(each) ? elementsOf(each.expression) : [each]));
  }
  if (!node || !ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression)) return [];
  const { expression: of, name } = node.expression;
  if (name.text === 'filter') return elementsOf(of);
  const [argument] = node.arguments;
  const object = argument && of.getText() === 'Object' ? spelledOut(argument) : undefined;
  return object && ts.isObjectLiteralExpression(object) ? object.properties : [];
}

/** Returns the nodes that a title shows of its rows. */
function shownParts(rows: readonly ts.Node[], title: string): readonly ts.Node[] {
  const places = [...title.matchAll(SHOWN)].map(([place]) => place).filter((place) => !/^%[%#$]/.test(place));
  let at = 0;
  const keys = places.map((place) => (place.startsWith('$') ? place.slice(1) : at++));
  return rows.flatMap((row) => keys.map((key) => partOf(row, key))).filter((part) => part !== undefined);
}

function partOf(given: ts.Node, key: string | number): ts.Node | undefined {
  const row = spelledOut(given) ?? given;
  if (ts.isArrayLiteralExpression(row)) return row.elements[Number(key)];
  if (ts.isPropertyAssignment(row) || ts.isMethodDeclaration(row)) return key === 0 ? row.name : undefined;
  if (!ts.isObjectLiteralExpression(row)) return key === 0 ? row : undefined;
  const field = row.properties.find(({ name }) => name?.getText() === key);
  return field && ts.isPropertyAssignment(field) ? field.initializer : undefined;
}

/** Returns the value of `node` without casts; of a name, the value that the file gives it where it declares it. */
function spelledOut(node: ts.Node): ts.Node | undefined {
  if (ts.isAsExpression(node) || ts.isSatisfiesExpression(node) || ts.isParenthesizedExpression(node)) {
    return spelledOut(node.expression);
  }
  if (!ts.isIdentifier(node)) return node;
  const visit = (at: ts.Node): ts.Node | undefined =>
    ts.isVariableDeclaration(at) && at.name.getText() === node.text && at.initializer && at.initializer !== node
      ? at.initializer
      : ts.forEachChild(at, visit);
  const value = visit(node.getSourceFile());
  return value && spelledOut(value);
}
