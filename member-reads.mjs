// Tells which members of types a program reads, for dead-members.mjs. A value travels from type to type, and so do the
// reads of its members:
// - A value of type A is given for a B: code that reads a member of B reads the member of that name in A.
// - A value is given for any value: code may read all of it, such as JSON.stringify or a log line.
// - An error is thrown: code that catches it may read it.
// - A class implements an interface of a package: the package calls it.
// - A member is set through B: code that reads it through A reads what was set.
import ts from 'typescript';

/** Types inside types that are followed: they may go on without end. */
const DEPTH_MAX = 24;

/** Types of packages inside each other that may hold a type parameter: `readonly Promise<I>[]`. */
const HELD_DEPTH_MAX = 3;

/** Finds the members that a program reads. */
export class MemberReads {
  #checker;
  /** By a member that may be read: the members that are read with it. */
  #readThrough = new Map();
  #read = new Set();
  /** Members that are set after their object was made. */
  #set = new Set();
  #related = new Set();
  #handedOut = new Set();
  /** A small number for each type: pairs of them are keys. */
  #numbers = new Map();

  constructor(program) {
    this.#checker = program.getTypeChecker();
  }

  /** Notes what one file reads, and which members reach which others. */
  visit(file) {
    const walk = (node) => {
      this.#noteReads(node);
      this.#noteFlow(node);
      ts.forEachChild(node, walk);
    };
    walk(file);
  }

  /** Marks what users of a door read: the types of its exports, and of what those return or hand to callbacks. */
  publish(file) {
    const exported = this.#checker.getExportsOfModule(this.#checker.getSymbolAtLocation(file));
    const seen = new Set();
    for (const symbol of exported) {
      const own = symbol.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol;
      const isType = (own.flags & ts.SymbolFlags.Value) === 0;
      this.#publish(isType ? this.#checker.getDeclaredTypeOfSymbol(own) : this.#checker.getTypeOfSymbol(own), seen);
    }
  }

  /** @param isGiven users get values of the type, rather than make them */
  #publish(type, seen, isGiven = true) {
    const key = `${this.#numberOf(type)} ${isGiven}`;
    if (seen.has(key)) return;
    seen.add(key);
    for (const part of partsOf(type).filter(isObject)) {
      for (const argument of argumentsOf(this.#checker, part)) this.#publish(argument, seen, isGiven);
      if (isLibraryType(part)) continue;
      for (const property of this.#checker.getPropertiesOfType(part)) {
        if (isGiven) this.#readSymbol(property);
        this.#publish(this.#checker.getTypeOfSymbol(property), seen, isGiven);
      }
      for (const call of this.#checker.getSignaturesOfType(part, ts.SignatureKind.Call)) {
        this.#publish(call.getReturnType(), seen, isGiven);
        for (const each of call.parameters) this.#publish(this.#checker.getTypeOfSymbol(each), seen, !isGiven);
      }
    }
  }

  read(member) {
    this.#read.add(member);
  }

  isRead(member) {
    return this.#read.has(member);
  }

  /** Marks what is read along with what was found so far. */
  settle() {
    const set = [...this.#set];
    for (let target = set.pop(); target !== undefined; target = set.pop()) {
      for (const source of [...(this.#readThrough.get(target) ?? [])]) {
        this.#link(source, target);
        if (!this.#set.has(source)) set.push(source);
        this.#set.add(source);
      }
    }
    const waiting = [...this.#read];
    for (let member = waiting.pop(); member !== undefined; member = waiting.pop()) {
      for (const source of this.#readThrough.get(member) ?? []) {
        if (!this.#read.has(source)) {
          this.#read.add(source);
          waiting.push(source);
        }
      }
    }
  }

  #readSymbol(symbol) {
    for (const declaration of symbol?.declarations ?? []) this.#read.add(declaration);
  }

  #readProperty(type, name) {
    for (const each of partsOf(type)) this.#readSymbol(this.#checker.getPropertyOfType(this.#apparent(each), name));
  }

  #apparent(type) {
    return this.#checker.getApparentType(type);
  }

  #noteReads(node) {
    const checker = this.#checker;
    if (ts.isPropertyAccessExpression(node)) {
      if (!isOnlyWritten(node)) {
        this.#readSymbol(checker.getSymbolAtLocation(node.name));
        this.#readProperty(checker.getTypeAtLocation(node.expression), node.name.text);
      } else for (const each of checker.getSymbolAtLocation(node.name)?.declarations ?? []) this.#set.add(each);
    } else if (ts.isElementAccessExpression(node)) {
      if (!isOnlyWritten(node)) this.#readKeys(checker.getTypeAtLocation(node.expression), node.argumentExpression);
    } else if (ts.isBindingElement(node) && ts.isObjectBindingPattern(node.parent) && !node.dotDotDotToken) {
      const name = node.propertyName ?? node.name;
      if (ts.isComputedPropertyName(name)) this.#readKeys(checker.getTypeAtLocation(node.parent), name.expression);
      else this.#readProperty(checker.getTypeAtLocation(node.parent), name.text);
    } else if (ts.isIndexedAccessTypeNode(node)) {
      this.#readKeys(checker.getTypeAtLocation(node.objectType), node.indexType);
    } else if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.InKeyword) {
      if (!ts.isPrivateIdentifier(node.left)) this.#readKeys(checker.getTypeAtLocation(node.right), node.left);
    } else if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.EqualsToken) {
      if (ts.isObjectLiteralExpression(node.left)) {
        const type = checker.getTypeAtLocation(node.right);
        for (const { name } of node.left.properties) if (name && 'text' in name) this.#readProperty(type, name.text);
      }
    }
  }

  /** Marks what `of[key]` reads: each name that the key can be. */
  #readKeys(of, key) {
    const type = this.#checker.getTypeAtLocation(key);
    for (const each of partsOf(this.#checker.getBaseConstraintOfType(type) ?? type)) {
      if (each.isStringLiteral()) this.#readProperty(of, each.value);
      else if (each.flags & (ts.TypeFlags.StringLike | ts.TypeFlags.Any)) {
        for (const part of partsOf(of)) this.#handOut(this.#apparent(part), 0, false);
      }
    }
  }

  #noteFlow(node) {
    if (ts.isExpression(node) && !ts.isPropertyAccessExpression(node.parent)) {
      const given = this.#checker.getTypeAtLocation(node);
      const wanted = partsOf(given).some(isObject) ? this.#checker.getContextualType(node) : undefined;
      if (wanted !== undefined) this.#relate(given, wanted, 0);
    }
    // `declare const`: the host gives it, and takes what it asks for.
    if (ts.isVariableDeclaration(node) && ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Ambient) {
      const seen = new Set();
      for (const isGiven of [true, false]) this.#publish(this.#checker.getTypeAtLocation(node), seen, isGiven);
    }
    if (ts.isThrowStatement(node)) this.#handOut(this.#checker.getTypeAtLocation(node.expression), 0, true);
    if (ts.isCallExpression(node) || ts.isNewExpression(node)) this.#noteConstraints(node);
    if (ts.isClassLike(node)) {
      const own = this.#checker.getTypeAtLocation(node);
      for (const { types } of node.heritageClauses ?? []) {
        for (const each of types) {
          const base = this.#checker.getTypeAtLocation(each);
          this.#relate(own, base, 0);
          this.#noteTypeArguments(base);
        }
      }
    }
    if (ts.isInterfaceDeclaration(node)) {
      const own = this.#checker.getTypeAtLocation(node);
      for (const base of this.#checker.getBaseTypes(own)) this.#relate(own, base, 0);
    }
    if (ts.isAsExpression(node) || ts.isSatisfiesExpression(node)) this.#noteOtherType(node);
  }

  /** Notes that the argument of `push<I extends Instruction>(instruction: I)` is used as an `Instruction`. */
  #noteConstraints(call) {
    this.#noteTypeArguments(this.#checker.getTypeAtLocation(call));
    const parameters = this.#checker.getResolvedSignature(call)?.declaration?.parameters ?? [];
    for (const [at, parameter] of parameters.entries()) {
      const declared = this.#checker.getTypeAtLocation(parameter);
      const given = call.arguments?.[at];
      if (declared.flags & ts.TypeFlags.Conditional) this.#noteCondition(call, declared);
      else if (given) this.#noteConstraint(this.#checker.getTypeAtLocation(given), declared);
    }
  }

  /** Notes that the `x` of `use<T>(x: T, ...rest: T extends Closable ? [] : [close])` may be used as a `Closable`. */
  #noteCondition(call, { extendsType }) {
    const holds = (type) => isLibraryType(type) || this.#checker.isTupleType(type);
    const heldBy = (type) => (holds(type) ? argumentsOf(this.#checker, type) : [type]);
    for (const given of call.arguments ?? []) {
      for (const value of partsOf(this.#checker.getTypeAtLocation(given)).flatMap(heldBy)) {
        for (const wanted of heldBy(extendsType)) if (!isAnything(wanted)) this.#relate(value, wanted, 0);
      }
    }
  }

  /** @param declared `I`, or a type that holds one: `I | Promise<I>` */
  #noteConstraint(given, declared, depth = 0) {
    if (depth > HELD_DEPTH_MAX) return;
    for (const part of partsOf(declared)) {
      const constraint = part.flags & ts.TypeFlags.TypeParameter && this.#checker.getBaseConstraintOfType(part);
      if (constraint) this.#relate(given, constraint, 0);
      const held = isLibraryType(part) ? argumentsOf(this.#checker, part) : [];
      for (const own of held.length > 0 ? partsOf(given).filter(isLibraryType) : []) {
        for (const [at, argument] of argumentsOf(this.#checker, own).entries()) {
          if (held[at]) this.#noteConstraint(argument, held[at], depth + 1);
        }
      }
    }
  }

  /** Notes that the `P` of `class Pools<P extends Pool>` is used as a `Pool`. */
  #noteTypeArguments(type) {
    const given = argumentsOf(this.#checker, type);
    (type.target?.typeParameters ?? []).forEach((parameter, at) => {
      const constraint = this.#checker.getBaseConstraintOfType(parameter);
      if (constraint && given[at] && !isAnything(constraint)) this.#relate(given[at], constraint, 0);
    });
  }

  /** Notes that the value of `x as T`, `x as unknown as T` or `x satisfies T` has two types, each used as the other. */
  #noteOtherType({ expression, type }) {
    const value = ts.isAsExpression(expression) ? expression.expression : expression;
    const [own, named] = [value, type].map((each) => this.#checker.getTypeAtLocation(each));
    this.#relate(own, named, 0);
    if (isAnything(own)) return;
    this.#relate(named, own, 0);
    // A package has more than its types tell, or asks for more.
    if (value !== expression && partsOf(named).some(isLibraryType)) this.#publish(own, new Set());
    if (isLibraryType(own)) this.#publish(named, new Set());
  }

  #numberOf(type) {
    const known = this.#numbers.get(type);
    if (known !== undefined) return known;
    this.#numbers.set(type, this.#numbers.size);
    return this.#numbers.size - 1;
  }

  /** Notes that a value of the type `source` is used as a `target`. */
  #relate(source, target, depth) {
    if (source === target || depth > DEPTH_MAX) return;
    const pair = `${this.#numberOf(source)} ${this.#numberOf(target)}`;
    if (this.#related.has(pair)) return;
    this.#related.add(pair);
    if (isAnything(target)) {
      this.#handOut(source, depth, true);
      return;
    }
    for (const from of partsOf(source)) {
      for (const to of partsOf(target)) {
        if (from !== to && isObject(from) && (isObject(to) || isAnything(to))) this.#relateObjects(from, to, depth);
      }
    }
  }

  #relateObjects(from, to, depth) {
    const checker = this.#checker;
    if (isAnything(to)) return this.#handOut(from, depth, true);
    // Map<K, V> and ReadonlyMap<K, V>, T[] and Iterable<T>: what they hold.
    if (isLibraryType(from) && isLibraryType(to)) {
      const ours = argumentsOf(checker, from);
      for (const [at, argument] of argumentsOf(checker, to).entries()) {
        if (ours[at]) this.#relate(ours[at], argument, depth + 1);
      }
      return;
    }
    for (const { type } of checker.getIndexInfosOfType(to)) {
      const own = checker.getIndexInfosOfType(from);
      for (const each of own) this.#relate(each.type, type, depth + 1);
      if (own.length === 0) this.#handOutTo(from, type, depth);
    }
    for (const property of checker.getPropertiesOfType(this.#apparent(to))) {
      const own = propertyLike(checker, this.#apparent(from), property);
      if (own === undefined) {
        for (const { type } of checker.getIndexInfosOfType(from))
          this.#relate(type, checker.getTypeOfSymbol(property), depth + 1);
        continue;
      }
      if (own === property) continue;
      this.#connect(own, property);
      this.#relate(checker.getTypeOfSymbol(own), checker.getTypeOfSymbol(property), depth + 1);
    }
    const [call] = checker.getSignaturesOfType(to, ts.SignatureKind.Call);
    if (call !== undefined) {
      for (const own of checker.getSignaturesOfType(from, ts.SignatureKind.Call)) this.#relateCalls(own, call, depth);
    }
  }

  #relateCalls(from, to, depth) {
    const checker = this.#checker;
    this.#relate(from.getReturnType(), to.getReturnType(), depth + 1);
    to.parameters.forEach((parameter, at) => {
      const own = from.parameters[at];
      if (own) this.#relate(checker.getTypeOfSymbol(parameter), checker.getTypeOfSymbol(own), depth + 1);
    });
  }

  #connect(source, target) {
    if (isLibrary(target)) this.#readSymbol(source);
    if (isLibrary(source) && target.declarations?.some((each) => this.#set.has(each))) this.#readSymbol(target);
    for (const to of target.declarations ?? []) {
      for (const from of source.declarations ?? []) {
        if (from !== to) this.#link(to, from);
      }
    }
  }

  #link(read, alsoRead) {
    const linked = this.#readThrough.get(read) ?? new Set();
    this.#readThrough.set(read, linked.add(alsoRead));
  }

  /** Marks every property of `type`: something takes it that reads names which it does not know. */
  #handOut(type, depth, isDeep) {
    if (depth > DEPTH_MAX) return;
    for (const part of partsOf(type)) {
      if (!isObject(part) || (isDeep && this.#handedOut.has(part))) continue;
      if (isDeep) this.#handedOut.add(part);
      if (isLibraryType(part)) {
        if (isDeep) for (const argument of argumentsOf(this.#checker, part)) this.#handOut(argument, depth + 1, true);
        continue;
      }
      for (const { type: value } of isDeep ? this.#checker.getIndexInfosOfType(part) : []) {
        this.#handOut(value, depth + 1, true);
      }
      for (const property of this.#checker.getPropertiesOfType(part)) {
        if (property.flags & ts.SymbolFlags.Method) continue;
        this.#readSymbol(property);
        if (isDeep) this.#handOut(this.#checker.getTypeOfSymbol(property), depth + 1, true);
      }
    }
  }

  #handOutTo(from, valueType, depth) {
    this.#handOut(from, depth, false);
    for (const property of this.#checker.getPropertiesOfType(from)) {
      this.#relate(this.#checker.getTypeOfSymbol(property), valueType, depth + 1);
    }
  }
}

function partsOf(type) {
  return type.isUnion() ? type.types.flatMap(partsOf) : [type];
}

function argumentsOf(checker, type) {
  return type.objectFlags & ts.ObjectFlags.Reference ? checker.getTypeArguments(type) : [];
}

/** Returns the property of that name, which may be a symbol: `[Symbol.iterator]`. */
function propertyLike(checker, type, { name, escapedName }) {
  if (!name.startsWith('__@')) return checker.getPropertyOfType(type, name);
  return checker.getPropertiesOfType(type).find((each) => each.escapedName === escapedName);
}

function isObject(type) {
  return (type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection | ts.TypeFlags.TypeParameter)) !== 0;
}

/** Whether it is `any`, `unknown`, `object` or `{}`. */
function isAnything(type) {
  if (type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown | ts.TypeFlags.NonPrimitive)) return true;
  if (!(type.flags & ts.TypeFlags.Object) || type.symbol !== undefined) return false;
  return type.getProperties().length === 0 && type.getStringIndexType() === undefined;
}

/** Whether it is a type of a package or of the language, and not one made of others, such as `Readonly<T>`. */
function isLibraryType(type) {
  return !(type.objectFlags & ts.ObjectFlags.Mapped) && isLibrary(type.symbol);
}

function isLibrary(symbol) {
  if (symbol?.name === 'globalThis') return true;
  const file = symbol?.declarations?.[0]?.getSourceFile();
  return file !== undefined && (file.isDeclarationFile || file.fileName.includes('/node_modules/'));
}

/** Whether a member is only set: `x.member = value`, or `x.member += 1` if nothing takes the result. */
function isOnlyWritten(node) {
  const { parent } = node;
  if (ts.isBinaryExpression(parent) && parent.left === node) {
    const { kind } = parent.operatorToken;
    if (kind === ts.SyntaxKind.EqualsToken) return true;
    const isAssigned = kind >= ts.SyntaxKind.FirstAssignment && kind <= ts.SyntaxKind.LastAssignment;
    return isAssigned && !ts.isLogicalOrCoalescingAssignmentOperator(kind) && ts.isExpressionStatement(parent.parent);
  }
  const isCounted = ts.isPrefixUnaryExpression(parent) || ts.isPostfixUnaryExpression(parent);
  return (
    isCounted &&
    (parent.operator === ts.SyntaxKind.PlusPlusToken || parent.operator === ts.SyntaxKind.MinusMinusToken) &&
    (ts.isExpressionStatement(parent.parent) || ts.isForStatement(parent.parent))
  );
}
