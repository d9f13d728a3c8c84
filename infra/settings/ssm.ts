import * as z from 'zod';

/** Name of a parameter of Systems Manager. */
export const ParameterName = z
  .string()
  .regex(/^\/[A-Za-z0-9_./-]{1,1000}$/, 'must be the name of a parameter of Systems Manager, which begins with /');

/** Name of the root volume in the image of a machine. */
export const RootDevice = z.string().regex(/^\/dev\/[a-z0-9]{3,8}$/, 'must be the name of a device, as /dev/xvda');
