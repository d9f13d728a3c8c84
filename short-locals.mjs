// A package holds the code of some seventy others, whose local variables have long names. This gives them short ones.
// Names that a stack trace shows stay: those of modules' functions and classes, and those of methods. Stator's own code
// keeps all of its names.
import { readFile } from 'node:fs/promises';

/** For esbuild's `plugins`.
 * @type {import('esbuild').Plugin} */
export const shortLocals = {
  name: 'short-locals',
  setup({ onLoad, esbuild }) {
    onLoad({ filter: /[\\/]node_modules[\\/].*\.[cm]?js$/ }, async ({ path }) => {
      // Without a format, esbuild renames nothing at the top of a file: other code may use it
      const { code } = await esbuild.transform(await readFile(path, 'utf8'), { minifyIdentifiers: true });
      return { loader: 'js', contents: code };
    });
  },
};
