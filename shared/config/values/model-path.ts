import { parseHubModel } from './hub-model.ts';
import { checkPath, expandHome } from './json.ts';
import { accept, oneText, refuse, type ValueType } from './value-type.ts';

/**
 * The path of a model folder, or the name of a model on the hub. An existing folder wins. A path that begins with `/`,
 * `.` or `~` is never a name.
 */
export function modelPathType(): ValueType<string> {
  return oneText({
    name: 'folder or model',
    target: { kind: 'folder', isWritten: false },
    allowed: 'a local model folder, or ORG/NAME[@REVISION] on the Hugging Face Hub',
    parse: (text, around) => {
      if (text === '') return refuse('empty');
      const path = expandHome(text, around);
      if (around.kindOf(path) !== 'none') return checkPath(path, 'folder', {}, around);
      return parseHubModel(text) === undefined ? refuse('no such folder, and not the name of a model') : accept(text);
    },
  });
}
