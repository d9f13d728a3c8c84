// A door (`index.ts`) is for people who read and write the code. A bundle looks through it, to the file that each name
// comes from. Otherwise a file that takes one name would load everything behind the door.
//     import { a, b } from '../room/index.ts';                becomes an import of each file that declares one of them
//     const { a } = await import('../room/index.ts');         loads only that file, as does (await import(...)).a
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const DOOR = String.raw`'(\.[^']*/index\.ts)'`;
const TAKEN = new RegExp(String.raw`\b(import|export) \{([^}]*)\} from ${DOOR};`, 'g');
const TAKEN_LATER = new RegExp(String.raw`\bconst \{([^}]*)\} = await import\(${DOOR}\);`, 'g');
const ONE_TAKEN_LATER = new RegExp(String.raw`\(await import\(${DOOR}\)\)\.(\w+)`, 'g');
const ROOM_TAKEN_LATER = new RegExp(String.raw`\bimport\(${DOOR}\)`);
const HANDED_ON = /\bexport \{([^}]*)\} from '(\.[^']*)';/g;

/** The values of `a, type B, c as d` or `a, c: d`: each as it is called there, and here. */
function namesOf(list) {
  const all = list.split(',').map((name) => name.trim().split(/ as |: /));
  return all.filter(([name]) => name !== '' && !name.startsWith('type ')).map(([name, own = name]) => [name, own]);
}

/** The file of each name that a door hands on, and what it is called there. */
function originsOf(door) {
  const origins = new Map();
  for (const [, list, file] of readFileSync(door, 'utf8').matchAll(HANDED_ON)) {
    for (const [name, own] of namesOf(list)) origins.set(own, [join(dirname(door), file), name]);
  }
  return origins;
}

/** For esbuild's `plugins`.
 * @type {import('esbuild').Plugin} */
export const throughDoors = {
  name: 'through-doors',
  setup({ onLoad }) {
    const doors = new Map();
    /** Returns code that takes the names of a list from their files, in place of `taken`, which uses a door. */
    const fromFiles = (path, taken, list, from, write) => {
      const door = join(dirname(path), from);
      if (!doors.has(door)) doors.set(door, originsOf(door));
      const parts = new Map();
      for (const [name, own] of namesOf(list)) {
        const [file, declared] = doors.get(door).get(name) ?? [door, name];
        parts.set(file, [...(parts.get(file) ?? []), [declared, own]]);
      }
      const written = [...parts].map(([file, names]) => write(names, JSON.stringify(file)));
      return written.join(' ') + taken.replaceAll(/[^\n]/g, ''); // as many lines as before: stack traces name them
    };
    const pairs = (names, between) => `{ ${names.map((pair) => pair.join(between)).join(', ')} }`;
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const contents = readFileSync(path, 'utf8')
        .replaceAll(TAKEN, (all, word, list, from) =>
          fromFiles(path, all, list, from, (names, file) => `${word} ${pairs(names, ' as ')} from ${file};`),
        )
        .replaceAll(TAKEN_LATER, (all, list, from) =>
          fromFiles(path, all, list, from, (names, file) => `const ${pairs(names, ': ')} = await import(${file});`),
        )
        .replaceAll(ONE_TAKEN_LATER, (all, from, name) =>
          fromFiles(path, all, name, from, ([[declared]], file) => `(await import(${file})).${declared}`),
        );
      if (ROOM_TAKEN_LATER.test(contents)) {
        return { errors: [{ text: `${path}: write const { name } = await import(door);` }] };
      }
      return { loader: 'ts', contents };
    });
  },
};
