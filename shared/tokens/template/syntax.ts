import { parse, tokenize } from '@huggingface/jinja';
import { reasonOf } from '../../errors/index.ts';

/**
 * Node of the syntax tree that the Jinja parser makes, with the fields that are used here. The library's own evaluator
 * converts every value of every message on every request; instead, the tree is compiled to closures over plain values,
 * which is about ten times as fast.
 */
export type Node =
  | { readonly type: 'If'; readonly test: Node; readonly body: readonly Node[]; readonly alternate: readonly Node[] }
  | ForNode
  | { readonly type: 'Break' | 'Continue' }
  | { readonly type: 'Set'; readonly assignee: Node; readonly value: Node | null; readonly body: readonly Node[] }
  | {
      readonly type: 'Macro';
      readonly name: IdentifierNode;
      readonly args: readonly Node[];
      readonly body: readonly Node[];
    }
  | { readonly type: 'Comment' }
  | { readonly type: 'MemberExpression'; readonly object: Node; readonly property: Node; readonly computed: boolean }
  | CallNode
  | IdentifierNode
  | { readonly type: 'IntegerLiteral' | 'FloatLiteral'; readonly value: number }
  | { readonly type: 'StringLiteral'; readonly value: string }
  | { readonly type: 'ArrayLiteral' | 'TupleLiteral'; readonly value: readonly Node[] }
  | { readonly type: 'ObjectLiteral'; readonly value: ReadonlyMap<Node, Node> }
  | { readonly type: 'BinaryExpression'; readonly operator: Operator; readonly left: Node; readonly right: Node }
  | { readonly type: 'FilterExpression'; readonly operand: Node; readonly filter: IdentifierNode | CallNode }
  | { readonly type: 'FilterStatement'; readonly filter: IdentifierNode | CallNode; readonly body: readonly Node[] }
  | { readonly type: 'SelectExpression'; readonly lhs: Node; readonly test: Node }
  | { readonly type: 'TestExpression'; readonly operand: Node; readonly negate: boolean; readonly test: IdentifierNode }
  | { readonly type: 'UnaryExpression'; readonly operator: Operator; readonly argument: Node }
  | SliceNode
  | { readonly type: 'KeywordArgumentExpression'; readonly key: IdentifierNode; readonly value: Node }
  | { readonly type: 'SpreadExpression' | 'KeywordSpreadExpression'; readonly argument: Node }
  | {
      readonly type: 'CallStatement';
      readonly call: CallNode;
      readonly callerArgs: readonly Node[] | null;
      readonly body: readonly Node[];
    }
  | { readonly type: 'Ternary'; readonly condition: Node; readonly trueExpr: Node; readonly falseExpr: Node };

export interface IdentifierNode {
  readonly type: 'Identifier';
  readonly value: string;
}

export interface CallNode {
  readonly type: 'CallExpression';
  readonly callee: Node;
  readonly args: readonly Node[];
}

export interface ForNode {
  readonly type: 'For';
  readonly loopvar: Node;
  readonly iterable: Node;
  readonly body: readonly Node[];
  readonly defaultBlock: readonly Node[];
}

export interface SliceNode {
  readonly type: 'SliceExpression';
  readonly start: Node | undefined;
  readonly stop: Node | undefined;
  readonly step: Node | undefined;
}

interface Operator {
  readonly value: string;
}

/** Error for a construct that cannot be compiled; the message names it. */
export class TemplateSyntaxError extends Error {
  override readonly name = 'TemplateSyntaxError';
}

/** Error while rendering: a type error in the template, or its own `raise_exception`. */
export class TemplateRuntimeError extends Error {
  override readonly name = 'TemplateRuntimeError';
}

/** Token of the library. */
export type Token = ReturnType<typeof tokenize>[number];

/**
 * Parses a template. The parser supports neither arguments of tests nor `do`, so both are rewritten as constructs that
 * it supports: `x is eq(1)` as the filter `x | is eq(1)` under a reserved name, `do x` as `set _ = x`.
 * @throws TemplateSyntaxError
 */
export function parseTemplate(source: string): readonly Node[] {
  return parseTokens(tokenizeTemplate(source));
}

/** Does the first half of `parseTemplate`, which takes about as long as the second. @throws TemplateSyntaxError */
export function tokenizeTemplate(source: string): readonly Token[] {
  checkSource(source);
  const tokens = orSyntaxError(() => tokenize(source, { lstrip_blocks: true, trim_blocks: true }));
  if (tokens.length > TOKENS_MAX) throw new TemplateSyntaxError(`${tokens.length} tokens, more than ${TOKENS_MAX}`);
  return tokens;
}

/** Does the second half of `parseTemplate`. @throws TemplateSyntaxError */
export function parseTokens(tokens: readonly Token[]): readonly Node[] {
  // The library's nodes have the shape of `Node`.
  return orSyntaxError(() => parse(rewriteTokens(tokens)).body as unknown as readonly Node[]);
}

function orSyntaxError<T>(action: () => T): T {
  try {
    return action();
  } catch (error) {
    throw new TemplateSyntaxError(reasonOf(error), { cause: error });
  }
}

/** Limits of a template. The longest in use have 41,000 characters and 11,000 tokens. */
const SOURCE_CHARS_MAX = 64 * 1024;
const TOKENS_MAX = 24 * 1024;
/** Limit of white space in a row: the parser rescans the run from each of its characters. */
const SPACES_MAX = 256;

function checkSource(source: string): void {
  if (source.length > SOURCE_CHARS_MAX) {
    throw new TemplateSyntaxError(`${source.length} characters, more than ${SOURCE_CHARS_MAX}`);
  }
  for (let at = 0, run = 0; at < source.length; at++) {
    const code = source.charCodeAt(at);
    run = code <= 0x20 || (code >= 0x80 && IS_SPACE.test(source.charAt(at))) ? run + 1 : 0;
    if (run > SPACES_MAX) throw new TemplateSyntaxError(`more than ${SPACES_MAX} characters of white space in a row`);
  }
}

const IS_SPACE = /\s/;

/** Filter names that stand for tests with arguments. */
export const TEST_FILTER = '__is__';
export const NEGATED_TEST_FILTER = '__is_not__';

const CLOSING: Readonly<Record<string, string>> = { OpenParen: 'CloseParen', OpenSquareBracket: 'CloseSquareBracket' };

function rewriteTokens(tokens: readonly Token[]): Token[] {
  const rewritten: Token[] = [];
  rewriteRange(tokens, { from: 0, end: tokens.length, closings: closingsOf(tokens) }, rewritten);
  return rewritten;
}

interface TokenRange {
  readonly from: number;
  readonly end: number;
  /** Place of the closing bracket by place of its opening one; -1 if there is none. */
  readonly closings: Int32Array;
}

function rewriteRange(tokens: readonly Token[], { from, end, closings }: TokenRange, rewritten: Token[]): void {
  for (let at = from; at < end; at++) {
    const token = tokens[at]!;
    if (token.type === 'Identifier' && token.value === 'do' && tokens[at - 1]?.type === 'OpenStatement') {
      rewritten.push(word('set'), word('_'), { value: '=', type: 'Equals' });
      continue;
    }
    const test = token.type === 'Identifier' && token.value === 'is' ? readTest(tokens, at + 1, closings) : undefined;
    if (test === undefined) {
      rewritten.push(token);
      continue;
    }
    const filter = (test.isNegated ? NEGATED_TEST_FILTER : TEST_FILTER) + test.name;
    rewritten.push({ value: '|', type: 'Pipe' }, word(filter), { value: '(', type: 'OpenParen' });
    rewriteRange(tokens, { from: test.argumentsFrom, end: test.end, closings }, rewritten);
    rewritten.push({ value: ')', type: 'CloseParen' });
    at = test.after - 1;
  }
}

interface TestTokens {
  readonly name: string;
  readonly isNegated: boolean;
  readonly argumentsFrom: number;
  /** End of the arguments, without a closing parenthesis. */
  readonly end: number;
  /** First token after the test. */
  readonly after: number;
}

/** Reads the test with arguments that begins at `from`; returns undefined for a plain test. */
function readTest(tokens: readonly Token[], from: number, closings: Int32Array): TestTokens | undefined {
  const isNegated = tokens[from]?.value === 'not';
  const at = isNegated ? from + 1 : from;
  const name = tokens[at];
  const next = tokens[at + 1];
  if (name?.type !== 'Identifier' || next === undefined) return undefined;
  if (next.type === 'OpenParen') {
    const close = closingAt(closings, at + 1);
    return { name: name.value, isNegated, argumentsFrom: at + 2, end: close, after: close + 1 };
  }
  const end =
    next.type === 'OpenSquareBracket' ? closingAt(closings, at + 1) + 1 : isOperand(next) ? at + 2 : undefined;
  return end === undefined ? undefined : { name: name.value, isNegated, argumentsFrom: at + 1, end, after: end };
}

function isOperand(token: Token): boolean {
  if (token.type === 'StringLiteral' || token.type === 'NumericLiteral') return true;
  return token.type === 'Identifier' && !/^(?:and|or|if|else|is|not|in|recursive)$/.test(token.value);
}

/** Finds all closing brackets in one pass: nested tests would otherwise search for them again and again. */
function closingsOf(tokens: readonly Token[]): Int32Array {
  const closings = new Int32Array(tokens.length).fill(-1);
  const open: Readonly<Record<string, number[]>> = { CloseParen: [], CloseSquareBracket: [] };
  for (const [at, { type }] of tokens.entries()) {
    const closing = CLOSING[type];
    if (closing !== undefined) open[closing]!.push(at);
    const opening = open[type]?.pop();
    if (opening !== undefined) closings[opening] = at;
  }
  return closings;
}

function closingAt(closings: Int32Array, open: number): number {
  const close = closings[open]!;
  if (close < 0) throw new TemplateSyntaxError('unbalanced brackets');
  return close;
}

function word(value: string): Token {
  return { value, type: 'Identifier' };
}
