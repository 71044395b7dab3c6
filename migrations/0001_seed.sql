create schema pushq;
