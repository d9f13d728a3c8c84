import { spendItems } from './budget.ts';
import type { CallArguments, TemplateFunction } from './call-arguments.ts';
import { compileBinary, compileUnary } from './compile-operator.ts';
import { entriesOf, memberOf } from './dictionaries.ts';
import { findFilter, findTest } from './filters.ts';
import { findMethod } from './methods.ts';
import { toNumber } from './operations.ts';
import { makeDictionary, toText } from './printed-values.ts';
import type { Evaluate, Scope } from './scope.ts';
import { itemAt, sliceOf, toItems } from './sequences.ts';
import {
  type CallNode,
  type IdentifierNode,
  NEGATED_TEST_FILTER,
  type Node,
  type SliceNode,
  TEST_FILTER,
  TemplateRuntimeError,
  TemplateSyntaxError,
} from './syntax.ts';
import { type Dictionary, isDictionary, isTrue, Namespace, Tuple, typeName } from './values.ts';

const CONSTANTS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);

let compiled = 0;

/** Returns how many expressions were compiled so far. The difference before and after a block is the block's count. */
export function nodesCompiled(): number {
  return compiled;
}

/** Compiles an expression. @throws TemplateSyntaxError naming a construct, filter or test that is not supported */
export function compileExpression(node: Node): Evaluate {
  compiled++;
  switch (node.type) {
    case 'StringLiteral':
    case 'IntegerLiteral':
    case 'FloatLiteral': {
      const { value } = node;
      return () => value;
    }
    case 'Identifier':
      return compileName(node.value);
    case 'MemberExpression':
      return compileMember(node.object, node.property, node.computed);
    case 'CallExpression':
      return compileCall(node);
    case 'BinaryExpression':
      return compileBinary(node.operator.value, compileExpression(node.left), compileExpression(node.right));
    case 'UnaryExpression':
      return compileUnary(node.operator.value, compileExpression(node.argument));
    case 'FilterExpression':
      return compileFilter(compileExpression(node.operand), node.filter);
    case 'TestExpression':
      return compileTest(compileExpression(node.operand), node.test.value, node.negate, () => []);
    case 'ArrayLiteral': {
      const items = node.value.map(compileExpression);
      return (scope) => items.map((item) => item(scope));
    }
    case 'TupleLiteral': {
      const items = node.value.map(compileExpression);
      return (scope) => Tuple.of(...items.map((item) => item(scope)));
    }
    case 'ObjectLiteral': {
      const members = [...node.value].map(
        ([key, value]) => [compileExpression(key), compileExpression(value)] as const,
      );
      return (scope) => makeDictionary(members.map(([key, value]) => [key(scope), value(scope)]));
    }
    case 'Ternary':
      return compileChoice(node.condition, node.trueExpr, node.falseExpr);
    case 'SelectExpression': // `a if b` without else
      return compileChoice(node.test, node.lhs, undefined);
    default:
      throw new TemplateSyntaxError(`${node.type} is not an expression`);
  }
}

function compileName(name: string): Evaluate {
  if (CONSTANTS.has(name)) {
    const value = CONSTANTS.get(name);
    return () => value;
  }
  return (scope) => scope.get(name);
}

function compileChoice(condition: Node, whenTrue: Node, whenFalse: Node | undefined): Evaluate {
  const test = compileExpression(condition);
  const yes = compileExpression(whenTrue);
  const no = whenFalse === undefined ? () => undefined : compileExpression(whenFalse);
  return (scope) => (isTrue(test(scope)) ? yes(scope) : no(scope));
}

function compileMember(object: Node, property: Node, isComputed: boolean): Evaluate {
  const container = compileExpression(object);
  const label = object.type === 'Identifier' ? object.value : 'a value';
  if (property.type === 'SliceExpression') return compileSlice(container, property);
  if (!isComputed && property.type === 'Identifier') {
    const name = property.value;
    return (scope) => attributeOf(container(scope), name, label);
  }
  const key = compileExpression(property);
  return (scope) => subscriptOf(container(scope), key(scope), label);
}

/** Returns `object.name`: a method takes precedence over a member, as in Python. */
function attributeOf(object: unknown, name: string, label: string): unknown {
  if (isDictionary(object)) {
    return findMethod(object, name) ?? (Object.hasOwn(object, name) ? memberOf(object, name) : undefined);
  }
  if (object instanceof Namespace) return object.members.get(name);
  if (object === undefined) throw new TemplateRuntimeError(`'${label}' is undefined, it has no '${name}'`);
  // A group is a tuple with names.
  if (object instanceof Tuple && Object.hasOwn(object, name) && name !== 'length') {
    return (object as unknown as Dictionary)[name];
  }
  return typeof object === 'string' || Array.isArray(object) ? findMethod(object, name) : undefined;
}

/** Returns `object[key]`: a member takes precedence over a method. */
function subscriptOf(object: unknown, key: unknown, label: string): unknown {
  if (typeof key === 'number' && (Array.isArray(object) || typeof object === 'string')) return itemAt(object, key);
  if (object === undefined) throw new TemplateRuntimeError(`'${label}' is undefined, it has no '${toText(key)}'`);
  const name = toText(key);
  if (isDictionary(object) && Object.hasOwn(object, name)) return memberOf(object, name);
  if (object instanceof Namespace) return object.members.get(name);
  return object === null ? undefined : findMethod(object, name);
}

function compileSlice(container: Evaluate, slice: SliceNode): Evaluate {
  const [start, stop, step] = [slice.start, slice.stop, slice.step].map((part) =>
    part === undefined ? undefined : compileExpression(part),
  );
  const bound = (part: Evaluate | undefined, scope: Scope): number | undefined => {
    const value = part?.(scope);
    return value === undefined || value === null ? undefined : toNumber(value, 'a slice');
  };
  return (scope) => sliceOf(container(scope), bound(start, scope), bound(stop, scope), bound(step, scope));
}

function compileCall({ callee, args }: CallNode): Evaluate {
  const target = compileExpression(callee);
  const pass = compileArguments(args);
  const label = describeCallee(callee);
  return (scope) => {
    const called = target(scope);
    if (typeof called !== 'function') throw new TemplateRuntimeError(`${label} is ${typeName(called)}, not a function`);
    return (called as TemplateFunction)(pass(scope));
  };
}

function describeCallee(callee: Node): string {
  if (callee.type === 'Identifier') return callee.value;
  return callee.type === 'MemberExpression' && callee.property.type === 'Identifier'
    ? `.${callee.property.value}`
    : 'the callee';
}

const NO_NAMES: ReadonlyMap<string, unknown> = new Map();
const NO_ARGUMENTS: CallArguments = { positional: [], named: NO_NAMES };

/** Compiles the arguments of a call; a call without arguments gets one shared empty object. */
export function compileArguments(args: readonly Node[]): (scope: Scope) => CallArguments {
  if (args.length === 0) return () => NO_ARGUMENTS;
  const fill = args.map(compileArgument);
  return (scope) => {
    const positional: unknown[] = [];
    const named = new Map<string, unknown>();
    for (const one of fill) one(scope, positional, named);
    return { positional, named };
  };
}

function compileArgument(node: Node): (scope: Scope, positional: unknown[], named: Map<string, unknown>) => void {
  switch (node.type) {
    case 'KeywordArgumentExpression': {
      const name = node.key.value;
      const value = compileExpression(node.value);
      return (scope, _, named) => void named.set(name, value(scope));
    }
    case 'SpreadExpression': {
      const list = compileExpression(node.argument);
      return (scope, positional) => {
        const items = toItems(list(scope));
        spendItems(items.length);
        positional.push(...items);
      };
    }
    case 'KeywordSpreadExpression': {
      const members = compileExpression(node.argument);
      return (scope, _, named) => {
        const spread = members(scope) ?? {};
        if (!isDictionary(spread)) throw new TemplateRuntimeError(`** needs a mapping, not ${typeName(spread)}`);
        for (const [name, value] of entriesOf(spread)) named.set(toText(name), value);
      };
    }
    default: {
      const value = compileExpression(node);
      return (scope, positional) => void positional.push(value(scope));
    }
  }
}

/** Applies `filter` to `operand`. Tests with arguments arrive in this form too. */
export function compileFilter(operand: Evaluate, filter: IdentifierNode | CallNode): Evaluate {
  const callee = filter.type === 'Identifier' ? filter : filter.callee;
  if (callee.type !== 'Identifier') throw new TemplateSyntaxError('a filter without a name');
  const name = callee.value;
  const pass = compileArguments(filter.type === 'Identifier' ? [] : filter.args);
  for (const [prefix, isNegated] of [
    [TEST_FILTER, false],
    [NEGATED_TEST_FILTER, true],
  ] as const) {
    if (name.startsWith(prefix)) {
      return compileTest(operand, name.slice(prefix.length), isNegated, (scope) => pass(scope).positional);
    }
  }
  const apply = findFilter(name);
  if (apply === undefined) throw new TemplateSyntaxError(`filter '${name}'`);
  return (scope) => apply(operand(scope), pass(scope));
}

function compileTest(
  operand: Evaluate,
  name: string,
  isNegated: boolean,
  pass: (scope: Scope) => readonly unknown[],
): Evaluate {
  const test = findTest(name);
  if (test === undefined) throw new TemplateSyntaxError(`test '${name}'`);
  return (scope) => test(operand(scope), pass(scope)) !== isNegated;
}
