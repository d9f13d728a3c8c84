// Lists members of interfaces, types and classes that no code of the product reads: `npm run check:members`. knip sees
// only exports. A member is alive if code outside test/ reads it, or reads another member that its value reaches; see
// member-reads.mjs. There is no list of exceptions: `isMember` below says what the compiler, a package or a test reads.
import { dirname, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { MemberReads } from './member-reads.mjs';

/** Files whose members are checked. */
const CHECKED = /^(?:shared|functions)\/(?!sdk\/|.*\/generated\/)/;
/** Classes of packages that call more of a subclass than their types tell. */
const PACKAGE_CLASSES = /^IncomingMessage$/;
/** The files of tsconfig.doors.json. */
const DOORS = /^functions\/sdk\/(?:frontend|worker)\.ts$/;

/**
 * Whether its docstring says that it is for tests: a test has no other way to see or steer what the member stands for.
 */
function isForTests(node) {
  return ts.getJSDocCommentsAndTags(node).some((each) => /\bfor tests\b/i.test(each.getText()));
}

/** Whether it is a tag, such as `kind: 'text'`: the compiler reads it to tell types apart. */
function isTag({ type }) {
  return type !== undefined && ts.isLiteralTypeNode(type);
}

/** Whether it is a method of a class whose package may call it. */
function isOverride({ kind, parent }) {
  if (!ts.isClassLike(parent) || kind === ts.SyntaxKind.PropertyDeclaration) return false;
  return (parent.heritageClauses ?? []).some(
    ({ token, types: [base] }) =>
      token === ts.SyntaxKind.ExtendsKeyword && PACKAGE_CLASSES.test(base.expression.getText()),
  );
}

/** Whether it is inside a condition, `Extract` or `Exclude`: no value has such a type, others are compared with it. */
function isPattern(node) {
  const { parent } = node;
  if (parent === undefined || ts.isStatement(node)) return false;
  if (ts.isConditionalTypeNode(parent) && parent.extendsType === node) return true;
  if (ts.isTypeReferenceNode(parent) && /^(?:Extract|Exclude)$/.test(parent.typeName.text)) return true;
  return isPattern(parent);
}

/** Whether it declares a member that the product must read. */
function isMember(node) {
  const isDeclaration =
    ts.isPropertySignature(node) ||
    ts.isMethodSignature(node) ||
    ts.isPropertyDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isGetAccessor(node) ||
    (ts.isParameter(node) && ts.isParameterPropertyDeclaration(node, node.parent));
  if (!isDeclaration || ts.isObjectLiteralExpression(node.parent) || ts.isComputedPropertyName(node.name)) return false;
  // JSON.stringify calls `toJSON`.
  return node.name.text !== 'toJSON' && !isTag(node) && !isPattern(node) && !isOverride(node);
}

/** Returns the members that a file declares. */
function membersIn(file) {
  const found = [];
  const walk = (node) => {
    if (isMember(node)) found.push(node);
    ts.forEachChild(node, walk);
  };
  walk(file);
  return found;
}

/** Returns whether a file of the program is written here. */
function isOwn(file) {
  return !file.isDeclarationFile && !file.fileName.includes('/node_modules/');
}

/**
 * Returns `path:line owner.member` of each member that nothing reads.
 * @param {string} configPath the `tsconfig.json` that names the files; those below `test/` beside it do not count
 * @param {RegExp} isChecked paths of files whose members must be read
 * @param {RegExp} isDoor paths of files whose exports users read
 */
export function deadMembers(configPath, isChecked, isDoor) {
  const root = dirname(configPath);
  const config = ts.getParsedCommandLineOfConfigFile(
    configPath,
    {},
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic() {} },
  );
  const names = config.fileNames.filter((name) => !relative(root, name).startsWith('test/'));
  const program = ts.createProgram(names, config.options);
  const members = new MemberReads(program);
  const files = program.getSourceFiles().filter(isOwn);
  for (const file of files) members.visit(file);
  for (const file of files) if (isDoor.test(relative(root, file.fileName))) members.publish(file);
  const declared = files.flatMap((file) => membersIn(file).map((member) => [file, member]));
  for (const [, member] of declared) if (isForTests(member)) members.read(member);
  members.settle();
  return declared
    .filter(([file]) => isChecked.test(relative(root, file.fileName)))
    .filter(([, member]) => !members.isRead(member))
    .map(([file, member]) => {
      const line = file.getLineAndCharacterOfPosition(member.name.getStart()).line + 1;
      const owner = ts.findAncestor(member.parent, (node) => node.name !== undefined && ts.isIdentifier(node.name));
      return `${relative(root, file.fileName)}:${line} ${owner?.name.text ?? ''}.${member.name.getText()}`;
    });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const dead = deadMembers(fileURLToPath(new URL('tsconfig.json', import.meta.url)), CHECKED, DOORS);
  for (const each of dead) console.error(each);
  if (dead.length > 0) {
    console.error(
      `${dead.length} members that only tests read: delete or read them, or say "for tests" in their docstrings`,
    );
    process.exitCode = 1;
  }
}
