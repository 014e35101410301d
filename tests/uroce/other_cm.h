#ifndef OTHER_CM_H
#define OTHER_CM_H

/* The function that was called last, since this was asked; "" if none was. */
const char *other_cm_called(void);

#endif
