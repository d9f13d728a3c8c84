import { checkText, spend } from './budget.ts';
import type { CallArguments, TemplateFunction } from './call-arguments.ts';
import { compileArguments, compileExpression, compileFilter, nodesCompiled } from './compile-expression.ts';
import { isEqual } from './operations.ts';
import { toText } from './printed-values.ts';
import { type Evaluate, type Output, Scope } from './scope.ts';
import { toItems } from './sequences.ts';
import { type ForNode, type Node, TemplateRuntimeError, TemplateSyntaxError } from './syntax.ts';
import { isTrue, Namespace } from './values.ts';

/** Outcome of a statement: go on to the next one, or leave the loop or its round. */
export type Flow = typeof NEXT | typeof BREAK | typeof CONTINUE;
const NEXT = 0;
const BREAK = 1;
const CONTINUE = 2;

/** A compiled statement. */
export type Execute = (scope: Scope, output: Output) => Flow;

/** Compiles statements. @throws TemplateSyntaxError naming a construct that is not supported */
function compileBlock(nodes: readonly Node[]): Execute {
  const steps = nodes.filter((node) => node.type !== 'Comment').map(compileStatement);
  if (steps.length === 1) return steps[0]!;
  return (scope, output) => {
    for (const step of steps) {
      const flow = step(scope, output);
      if (flow !== NEXT) return flow;
    }
    return NEXT;
  };
}

function compileStatement(node: Node): Execute {
  switch (node.type) {
    case 'If':
      return compileIf(compileExpression(node.test), compileBlock(node.body), compileBlock(node.alternate));
    case 'For':
      return compileFor(node);
    case 'Set':
      return compileSet(node.assignee, node.value, node.body);
    case 'Macro':
      return compileDefinition(node.name.value, compileMacro(node.args, node.body));
    case 'CallStatement':
      return compileCallBlock(node);
    case 'FilterStatement':
      return compileFilterBlock(node);
    case 'Break':
      return () => BREAK;
    case 'Continue':
      return () => CONTINUE;
    default:
      return compilePrint(compileExpression(node));
  }
}

function compilePrint(value: Evaluate): Execute {
  return (scope, output) => {
    write(output, toText(value(scope)));
    return NEXT;
  };
}

function write(output: Output, text: string): void {
  checkText(output.text.length + text.length);
  output.text += text;
}

/** Compiles a block; also returns the most steps that it takes apart from calls and loops. */
export function compileCounted(nodes: readonly Node[]): readonly [Execute, number] {
  const before = nodesCompiled();
  const block = compileBlock(nodes);
  return [block, nodesCompiled() - before + nodes.length + 1];
}

function compileIf(test: Evaluate, body: Execute, alternate: Execute): Execute {
  return (scope, output) => (isTrue(test(scope)) ? body(scope, output) : alternate(scope, output));
}

type Assign = (scope: Scope, value: unknown) => void;

function compileTarget(target: Node): Assign {
  if (target.type === 'Identifier') {
    const name = target.value;
    return (scope, value) => scope.set(name, value);
  }
  if (target.type === 'TupleLiteral') {
    const parts = target.value.map(compileTarget);
    return (scope, value) => {
      const items = toItems(value);
      if (items.length !== parts.length) {
        throw new TemplateRuntimeError(`cannot unpack ${items.length} items into ${parts.length} names`);
      }
      parts.forEach((part, at) => {
        part(scope, items[at]);
      });
    };
  }
  if (target.type === 'MemberExpression' && target.property.type === 'Identifier') {
    const object = compileExpression(target.object);
    const name = target.property.value;
    return (scope, value) => {
      const holder = object(scope);
      if (!(holder instanceof Namespace)) throw new TemplateRuntimeError('only attributes of namespaces can be set');
      holder.members.set(name, value);
    };
  }
  throw new TemplateSyntaxError(`assignment to ${target.type}`);
}

function compileSet(target: Node, value: Node | null, body: readonly Node[]): Execute {
  const assign = compileTarget(target);
  const evaluate = value === null ? renderToText(compileBlock(body)) : compileExpression(value);
  return (scope) => {
    assign(scope, evaluate(scope));
    return NEXT;
  };
}

/** Turns a block into an expression whose value is the text that the block prints. */
function renderToText(block: Execute): Evaluate {
  return (scope) => textOf(block, new Scope(scope));
}

function textOf(block: Execute, scope: Scope): string {
  const output: Output = { text: '' };
  block(scope, output);
  return output.text;
}

function compileFor(node: ForNode): Execute {
  const assign = compileTarget(node.loopvar);
  const { iterable: source } = node;
  const isFiltered = source.type === 'SelectExpression';
  const list = compileExpression(isFiltered ? source.lhs : source);
  const before = nodesCompiled();
  const test = isFiltered ? compileExpression(source.test) : undefined;
  const testSteps = nodesCompiled() - before + 1;
  const [body, steps] = compileCounted(node.body);
  const otherwise = compileBlock(node.defaultBlock);
  return (scope, output) => {
    let items = toItems(list(scope));
    if (test !== undefined) {
      items = items.filter((item) => {
        spend(testSteps);
        const inner = new Scope(scope);
        assign(inner, item);
        return isTrue(test(inner));
      });
    }
    if (items.length === 0) return otherwise(scope, output);
    const loop = loopVariable(items);
    for (let at = 0; at < items.length; at++) {
      spend(steps);
      const inner = new Scope(scope);
      moveLoop(loop, items, at);
      inner.set('loop', loop);
      assign(inner, items[at]);
      if (body(inner, output) === BREAK) break;
    }
    return NEXT;
  };
}

/** Variable `loop`: one object for each loop, changed in each round. */
type Loop = Record<string, unknown>;

function loopVariable(items: readonly unknown[]): Loop {
  const loop: Loop = { index0: 0, length: items.length };
  let previous: unknown[] | undefined;
  const cycle: TemplateFunction = ({ positional }) => positional[Number(loop.index0) % positional.length];
  const changed: TemplateFunction = ({ positional }) => {
    const isSame = previous !== undefined && isEqual(previous, positional);
    previous = [...positional];
    return !isSame;
  };
  return Object.assign(loop, { cycle, changed, depth: 1, depth0: 0 });
}

function moveLoop(loop: Loop, items: readonly unknown[], at: number): void {
  loop.index = at + 1;
  loop.index0 = at;
  loop.revindex = items.length - at;
  loop.revindex0 = items.length - at - 1;
  loop.first = at === 0;
  loop.last = at === items.length - 1;
  loop.previtem = at > 0 ? items[at - 1] : undefined;
  loop.nextitem = items[at + 1];
}

interface MacroParameter {
  readonly name: string;
  readonly fallback: Evaluate | undefined;
}

function compileParameters(nodes: readonly Node[]): readonly MacroParameter[] {
  return nodes.map((node) => {
    if (node.type === 'Identifier') return { name: node.value, fallback: undefined };
    if (node.type === 'KeywordArgumentExpression') {
      return { name: node.key.value, fallback: compileExpression(node.value) };
    }
    throw new TemplateSyntaxError(`macro parameter ${node.type}`);
  });
}

function bind(parameters: readonly MacroParameter[], args: CallArguments, scope: Scope): void {
  const rest = new Map(args.named);
  parameters.forEach(({ name, fallback }, at) => {
    const value = at < args.positional.length ? args.positional[at] : rest.get(name);
    rest.delete(name);
    scope.set(name, value ?? (value === undefined ? fallback?.(scope) : value));
  });
  scope.set('varargs', args.positional.slice(parameters.length));
  rest.delete('caller');
  scope.set('kwargs', Object.fromEntries(rest));
}

/** Limit of nested macro calls: endless recursion stops here before the stack overflows. */
const MACRO_DEPTH_MAX = 200;
let macroDepth = 0;

function callMacro(block: Execute, scope: Scope): string {
  if (macroDepth >= MACRO_DEPTH_MAX) throw new TemplateRuntimeError('macros are nested too deeply');
  macroDepth++;
  try {
    return textOf(block, scope);
  } finally {
    macroDepth--;
  }
}

/** Compiles a macro, or the block that a call block passes to one: a function of the scope in which it is written. */
function compileMacro(parameterNodes: readonly Node[], body: readonly Node[]): (scope: Scope) => TemplateFunction {
  const parameters = compileParameters(parameterNodes);
  const [block, steps] = compileCounted(body);
  return (scope) => (args) => {
    spend(steps);
    const inner = new Scope(scope);
    const caller = args.named.get('caller');
    if (caller !== undefined) inner.set('caller', caller);
    bind(parameters, args, inner);
    return callMacro(block, inner);
  };
}

function compileDefinition(name: string, macro: (scope: Scope) => TemplateFunction): Execute {
  return (scope) => {
    scope.set(name, macro(scope));
    return NEXT;
  };
}

function compileCallBlock(node: Extract<Node, { type: 'CallStatement' }>): Execute {
  const target = compileExpression(node.call.callee);
  const pass = compileArguments(node.call.args);
  const callerIn = compileMacro(node.callerArgs ?? [], node.body);
  return (scope, output) => {
    const called = target(scope);
    if (typeof called !== 'function') throw new TemplateRuntimeError('a call block needs a macro');
    const { positional, named } = pass(scope);
    const withCaller = new Map([...named, ['caller', callerIn(scope)]]);
    write(output, toText((called as TemplateFunction)({ positional, named: withCaller })));
    return NEXT;
  };
}

function compileFilterBlock(node: Extract<Node, { type: 'FilterStatement' }>): Execute {
  return compilePrint(compileFilter(renderToText(compileBlock(node.body)), node.filter));
}
