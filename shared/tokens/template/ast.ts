/**
 * The syntax tree that the Jinja parser makes, as far as we read it. The library's own evaluator converts every value of
 * every message on every request; we compile the tree to closures over plain values instead (about ten times as fast).
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

/** A construct that cannot be compiled; the message names it. */
export class TemplateSyntaxError extends Error {
  override readonly name = 'TemplateSyntaxError';
}

/** A template failed while rendering: a type error in it, or its own `raise_exception`. */
export class TemplateRuntimeError extends Error {
  override readonly name = 'TemplateRuntimeError';
}
